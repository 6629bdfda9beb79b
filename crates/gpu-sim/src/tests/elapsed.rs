// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elapsed reads that tell what cannot be, or are refused, and polls that no
//! capture mode protects.

use std::thread;

use super::{elapsed, new_event, new_stream, start, told};
use crate::abi::{capture, context, event};
use crate::control;
use crate::control_abi;

/// An event recorded at 0 and one at 50 µs, both done.
fn pair() -> (u64, u64) {
    let (start, end, stream) = (new_event(), new_event(), new_stream());
    assert_eq!(event::cuEventRecord(start, stream), 0);
    control::advance_ns(50_000);
    assert_eq!(event::cuEventRecord(end, stream), 0);
    (start, end)
}

#[test]
fn elapsed_reads_tell_what_was_put_in_and_then_the_truth() {
    let _alone = crate::exclusive();
    start();
    let (start, end) = pair();
    let lies = [f32::NAN, f32::from_bits(0xffb1_2345), f32::INFINITY, f32::MAX, 1.8e13, -0.05];
    for lie in lies {
        control::tell_elapsed(lie, 1, 2);
        assert_eq!(elapsed(start, end), (0, 0.05), "skipped");
        let v2 = |out: &mut _| event::cuEventElapsedTime_v2(Some(out), start, end);
        for (status, ms) in [elapsed(start, end), told(0.0, v2)] {
            assert_eq!((status, ms.to_bits()), (0, lie.to_bits()));
        }
        assert_eq!(elapsed(start, end), (0, 0.05), "over");
    }
    control::tell_elapsed(7.0, 0, 0);
    assert_eq!(elapsed(start, end), (0, 0.05), "none was asked for");

    // Through C, and taken away with the faults.
    // SAFETY: it takes numbers only.
    unsafe { control_abi::sim_tell_elapsed(7.0, 0, u64::MAX) };
    assert_eq!(elapsed(start, end), (0, 7.0));
    control::clear_faults();
    assert_eq!(elapsed(start, end), (0, 0.05));
}

#[test]
fn a_read_that_fails_tells_nothing_and_uses_nothing_up() {
    let _alone = crate::exclusive();
    start();
    let (start, end) = pair();
    control::tell_elapsed(7.0, 0, 1);
    let never = new_event();
    assert_eq!(elapsed(start, never), (400, 0.0));
    assert_eq!(elapsed(start, 0), (400, 0.0));
    assert_eq!(elapsed(start, end), (0, 7.0));
}

#[test]
fn an_elapsed_read_may_want_a_current_context() {
    let _alone = crate::exclusive();
    let context = start();
    let (start, end) = pair();
    // SAFETY: it takes a number only.
    unsafe { control_abi::sim_set_elapsed_needs_context(1) };
    assert_eq!(elapsed(start, end), (0, 0.05));
    assert_eq!(context::cuCtxSetCurrent(0), 0);
    assert_eq!(elapsed(start, end).0, 201);
    let v2 = |out: &mut _| event::cuEventElapsedTime_v2(Some(out), start, end);
    assert_eq!(told(0.0, v2).0, 201);
    assert_eq!(event::cuEventQuery(end), 0, "a query wants none");
    assert_eq!(context::cuCtxPushCurrent_v2(context), 0);
    assert_eq!(elapsed(start, end), (0, 0.05));
    assert_eq!(context::cuCtxSetCurrent(0), 0);
    control::set_elapsed_needs_context(false);
    assert_eq!(elapsed(start, end), (0, 0.05));
}

/// Polls in each mode of the polling thread beside a capture in each mode of
/// another thread: whether that capture lives, in a driver as NVIDIA describes
/// it and in a strict one.
#[test]
fn in_a_strict_driver_no_mode_protects_anothers_capture() {
    let _alone = crate::exclusive();
    for strict in [false, true] {
        for poller in 0..3 {
            for capturer in 0..3 {
                control::reset();
                start();
                control::set_strict_captures(strict);
                let (first, last) = pair();
                let stream = new_stream();
                assert_eq!(capture::cuStreamBeginCapture_v2(stream, capturer), 0);
                let answers = thread::scope(|scope| {
                    let polling = scope.spawn(|| {
                        let mut mode = poller;
                        let exchanged = capture::cuThreadExchangeStreamCaptureMode(Some(&mut mode));
                        assert_eq!(exchanged, 0);
                        [event::cuEventQuery(last), elapsed(first, last).0]
                    });
                    polling.join().expect("no panic")
                });
                let is_broken = capturer == 0 && (poller == 0 || strict);
                let expected = if is_broken { 900 } else { 0 };
                assert_eq!(answers, [expected; 2], "{strict} {poller} {capturer}");
                let ended = told(1, |out| capture::cuStreamEndCapture(stream, Some(out)));
                assert_eq!(ended.0 == 901, is_broken, "{strict} {poller} {capturer}");
            }
        }
    }
}

/// The thread's own capture: there the modes keep their meaning.
#[test]
fn a_strict_driver_lets_a_thread_poll_beside_its_own_capture() {
    let _alone = crate::exclusive();
    start();
    // SAFETY: it takes a number only.
    unsafe { control_abi::sim_set_strict_captures(1) };
    let (_, last) = pair();
    let stream = new_stream();
    assert_eq!(capture::cuStreamBeginCapture_v2(stream, 0), 0);
    let mut mode = 2;
    assert_eq!(capture::cuThreadExchangeStreamCaptureMode(Some(&mut mode)), 0);
    assert_eq!(event::cuEventQuery(last), 0);
    let ended = told(1, |out| capture::cuStreamEndCapture(stream, Some(out)));
    assert_eq!(ended.0, 0);
}
