// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults, sticky errors, hanging calls, the log.

use std::thread;

use metrale_gpu_sys::cuda::Status;

use super::{elapsed, new_event, new_stream, start, told};
use crate::SimCall;
use crate::abi::{capture, event, stream};
use crate::control::{self, Fault, UnknownCall};
use crate::control_abi;

#[test]
fn a_fault_skips_then_fails_then_is_over() {
    let _alone = crate::exclusive();
    start();
    let event = new_event();
    let fault = Fault {
        call: "cuEventQuery",
        status: Status::ERROR_ILLEGAL_ADDRESS,
        skip_first: 2,
        count: 2,
        this_thread_only: false,
    };
    control::fault(fault).expect("a driver function");
    let answers: Vec<u32> = (0..6).map(|_| event::cuEventQuery(event)).collect();
    assert_eq!(answers, [0, 0, 700, 700, 0, 0]);

    let on_this_thread = Fault { skip_first: 0, count: u64::MAX, this_thread_only: true, ..fault };
    control::fault(on_this_thread).expect("a driver function");
    assert_eq!(event::cuEventQuery(event), 700);
    thread::scope(|scope| {
        let elsewhere = scope.spawn(|| event::cuEventQuery(event)).join();
        assert_eq!(elsewhere.expect("no panic"), 0);
    });
    control::clear_faults();
    assert_eq!(event::cuEventQuery(event), 0);
    assert_eq!(
        control::fault(Fault { call: "cuEventQury", ..fault }),
        Err(UnknownCall("cuEventQury".to_owned()))
    );
}

#[test]
fn a_faulty_call_does_not_act() {
    let _alone = crate::exclusive();
    start();
    let (event, stream) = (new_event(), new_stream());
    control::fault(Fault {
        call: "cuEventRecord",
        status: Status::ERROR_UNKNOWN,
        skip_first: 0,
        count: 1,
        this_thread_only: false,
    })
    .expect("a driver function");
    assert_eq!(event::cuEventRecord(event, stream), 999);
    assert_eq!(elapsed(event, event).0, 400, "never recorded");
}

#[test]
fn a_sticky_error_answers_every_call_of_its_context() {
    let _alone = crate::exclusive();
    let context = start();
    let (event, stream) = (new_event(), new_stream());
    assert_eq!(event::cuEventRecord(event, stream), 0);
    assert_eq!(control::set_sticky(context, Status::ERROR_ILLEGAL_ADDRESS), 1);
    assert_eq!(event::cuEventQuery(event), 700);
    assert_eq!(event::cuEventRecord(event, stream), 700);
    assert_eq!(elapsed(event, event).0, 700);
    let v2 = |out: &mut _| event::cuEventElapsedTime_v2(Some(out), event, event);
    assert_eq!(told(1.0, v2), (0, 0.0), "v2 need not tell");
    let capturing = |out: &mut _| capture::cuStreamIsCapturing(stream, Some(out));
    assert_eq!(told(9, capturing), (700, 9));
    assert_eq!(stream::cuStreamSynchronize(stream), 700);
    let create = |out: &mut _| event::cuEventCreate(Some(out), 0);
    assert_eq!(told(0, create).0, 700);
    assert_eq!(control::set_sticky(context + 1, Status::SUCCESS), 0);
    assert_eq!(control::set_sticky(0, Status::SUCCESS), 1);
    assert_eq!(event::cuEventQuery(event), 0);
}

#[test]
fn a_hung_call_holds_nothing_and_can_be_released() {
    let _alone = crate::exclusive();
    start();
    let event = new_event();
    control::hang("cuEventQuery").expect("a driver function");
    thread::scope(|scope| {
        let hung = scope.spawn(|| event::cuEventQuery(event));
        // The thread is bound to get there; a hang of the test is its failure.
        while control::hung_calls("cuEventQuery") != Ok(1) {
            thread::yield_now();
        }
        assert_eq!(new_stream() & 1, 0, "other calls go on");
        assert!(!hung.is_finished());
        control::release("cuEventQuery").expect("a driver function");
        assert_eq!(hung.join().expect("no panic"), 0);
    });
    assert_eq!(control::hung_calls("cuEventQuery"), Ok(0));
}

#[test]
fn the_log_tells_who_called_what_in_which_mode() {
    let _alone = crate::exclusive();
    start();
    let (event, stream) = (new_event(), new_stream());
    control::log_start();
    assert_eq!(event::cuEventRecord(event, stream), 0);
    let mut mode = 2;
    assert_eq!(capture::cuThreadExchangeStreamCaptureMode(Some(&mut mode)), 0);
    control::advance_ns(7);
    assert_eq!(event::cuEventQuery(event), 0);
    let other = thread::scope(|scope| {
        let other = scope.spawn(|| {
            assert_eq!(event::cuEventQuery(0), 400);
            control::thread_id()
        });
        other.join().expect("no panic")
    });
    control::log_stop();
    assert_eq!(event::cuEventQuery(event), 0);

    let log = control::log();
    let names: Vec<&str> = log.iter().map(|call| call.name).collect();
    assert_eq!(
        names,
        ["cuEventRecord", "cuThreadExchangeStreamCaptureMode", "cuEventQuery", "cuEventQuery"]
    );
    let me = control::thread_id();
    assert!(other != me);
    let threads: Vec<u64> = log.iter().map(|call| call.thread).collect();
    assert_eq!(threads, [me, me, me, other]);
    let modes: Vec<u32> = log.iter().map(|call| call.mode).collect();
    assert_eq!(modes, [0, 2, 2, 0]);
    assert_eq!((log[0].handle, log[0].stream), (event, stream));
    assert_eq!((log[2].handle, log[2].time_ns), (event, 7));
    assert_eq!(log[3].status, Status(400));
    assert!(log.windows(2).all(|w| w[0].sequence < w[1].sequence));
    assert_eq!(control::call_count("cuEventQuery"), Ok(3));
    assert_eq!(control::log_not_kept(), 0);

    // The same through C.
    let unset = SimCall {
        sequence: 0,
        thread: 0,
        name: std::ptr::null(),
        handle: 0,
        stream: 0,
        status: 0,
        mode: 0,
        time_ns: 0,
    };
    let get = |index| {
        told(unset, |out| {
            // SAFETY: a good out pointer.
            unsafe { control_abi::sim_log_get(index, Some(out)) }
        })
    };
    let (outcome, call) = get(3);
    assert_eq!((outcome, call.status, call.thread), (0, 400, other));
    // SAFETY: the name of a logged call is a C string that lives for ever.
    let name = unsafe { std::ffi::CStr::from_ptr(call.name) };
    assert_eq!(name.to_str(), Ok("cuEventQuery"));
    assert_eq!(get(4).0, 1);
    // SAFETY: a NULL name is allowed.
    let count = unsafe { control_abi::sim_call_count(std::ptr::null()) };
    assert_eq!(count, u64::MAX);
}
