// SPDX-License-Identifier: MIT OR Apache-2.0
//! Durations, waits and the clock, against values worked out by hand.

use super::{elapsed, function, launch, load, new_event, new_stream, start};
use crate::abi::{context, event, stream};
use crate::control;

#[test]
fn a_kernel_takes_its_argument_or_its_name_or_the_default() {
    let _alone = crate::exclusive();
    start();
    let module = load();
    let (timed, plain) = (function(module, c"timed"), function(module, c"plain"));
    let stream = new_stream();
    let events = [new_event(), new_event(), new_event(), new_event()];
    control::set_kernel_duration("timed", 1);
    assert_eq!(event::cuEventRecord(events[0], stream), 0);
    assert_eq!(launch(timed, stream, 50_000), 0);
    assert_eq!(event::cuEventRecord(events[1], stream), 0);
    assert_eq!(launch(plain, stream, 7), 0);
    assert_eq!(event::cuEventRecord(events[2], stream), 0);
    control::set_kernel_duration("plain", 2_000);
    assert_eq!(launch(plain, stream, 7), 0);
    assert_eq!(event::cuEventRecord(events[3], stream), 0);

    assert_eq!(elapsed(events[0], events[1]).0, 600);
    assert_eq!(stream::cuStreamSynchronize(stream), 0);
    assert_eq!(control::now_ns(), 53_000, "the wait moved the clock");
    assert_eq!(elapsed(events[0], events[1]), (0, 0.05));
    assert_eq!(elapsed(events[1], events[2]), (0, 0.001));
    assert_eq!(elapsed(events[2], events[3]), (0, 0.002));
    assert_eq!(elapsed(events[3], events[0]), (0, -0.053));
    control::set_event_quantum(10_000);
    assert_eq!(elapsed(events[0], events[3]), (0, 0.05));
}

#[test]
fn a_bad_launch_is_refused() {
    let _alone = crate::exclusive();
    start();
    let kernel = function(load(), c"timed");
    assert_eq!(launch(0, 0, 1), 400);
    let call = |blocks, threads, arguments| {
        let none = std::ptr::null_mut();
        // SAFETY: refused before the arguments are read, or NULL.
        unsafe {
            crate::abi::launch::cuLaunchKernel(
                kernel, blocks, 1, 1, threads, 1, 1, 0, 0, arguments, none,
            )
        }
    };
    assert_eq!(call(0, 1, std::ptr::null_mut()), 1, "no blocks");
    assert_eq!(call(1, 1_025, std::ptr::null_mut()), 1, "too many threads");
    assert_eq!(call(1, 1, std::ptr::null_mut()), 1, "an argument is missing");
}

#[test]
fn calls_cost_what_they_are_told_to() {
    let _alone = crate::exclusive();
    start();
    let (event, stream) = (new_event(), new_stream());
    control::set_call_cost(control::ALL, 10).expect("all");
    control::set_call_cost("cuEventRecord", 300).expect("a driver function");
    control::slow("cuEventQuery", 5_000, 1).expect("a driver function");
    let before = control::now_ns();
    assert_eq!(event::cuEventRecord(event, stream), 0);
    assert_eq!(control::now_ns() - before, 300);
    assert_eq!(event::cuEventQuery(event), 0);
    assert_eq!(control::now_ns() - before, 5_310);
    assert_eq!(event::cuEventQuery(event), 0);
    assert_eq!(control::now_ns() - before, 5_320);
    control::advance_to_ns(1);
    assert_eq!(control::now_ns() - before, 5_320, "never back");
}

/// An event is stamped when the device is done with it, and work after it
/// begins then.
#[test]
fn events_take_what_they_are_told_to() {
    let _alone = crate::exclusive();
    start();
    let kernel = function(load(), c"timed");
    let stream = new_stream();
    let events = [new_event(), new_event(), new_event()];
    control::set_event_duration(700);
    assert_eq!(event::cuEventRecord(events[0], stream), 0);
    assert_eq!(event::cuEventRecord(events[1], stream), 0);
    assert_eq!(launch(kernel, stream, 5_000), 0);
    assert_eq!(event::cuEventRecord(events[2], stream), 0);
    control::advance_ns(1_399);
    assert_eq!(event::cuEventQuery(events[0]), 0);
    assert_eq!(event::cuEventQuery(events[1]), 600);
    control::advance_ns(1);
    assert_eq!(event::cuEventQuery(events[1]), 0);
    assert_eq!(elapsed(events[0], events[1]), (0, 0.0007));
    control::advance_ns(5_700);
    assert_eq!(elapsed(events[1], events[2]), (0, 0.0057));
}

#[test]
fn waits_end_when_the_work_does() {
    let _alone = crate::exclusive();
    start();
    let kernel = function(load(), c"timed");
    let (a, b) = (new_stream(), new_stream());
    let event = new_event();
    assert_eq!(launch(kernel, a, 400), 0);
    assert_eq!(event::cuEventRecord(event, a), 0);
    assert_eq!(launch(kernel, a, 600), 0);
    assert_eq!(launch(kernel, b, 5_000), 0);
    assert_eq!(event::cuEventSynchronize(event), 0);
    assert_eq!(control::now_ns(), 400);
    assert_eq!(stream::cuStreamSynchronize(a), 0);
    assert_eq!(control::now_ns(), 1_000);
    assert_eq!(context::cuCtxSynchronize(), 0);
    assert_eq!(control::now_ns(), 5_000);
}

#[test]
fn in_real_time_a_wait_really_waits() {
    let _alone = crate::exclusive();
    start();
    let kernel = function(load(), c"timed");
    let (stream, event) = (new_stream(), new_event());
    control::set_real_time(true);
    let begun = std::time::Instant::now();
    let before = control::now_ns();
    assert_eq!(launch(kernel, stream, 3_000_000), 0);
    assert_eq!(event::cuEventRecord(event, stream), 0);
    assert_eq!(event::cuEventSynchronize(event), 0);
    assert!(begun.elapsed().as_nanos() >= 3_000_000);
    assert!(control::now_ns() >= before + 3_000_000);
    assert_eq!(event::cuEventQuery(event), 0);
}
