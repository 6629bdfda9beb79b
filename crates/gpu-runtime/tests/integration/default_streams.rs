// SPDX-License-Identifier: MIT OR Apache-2.0
//! Default streams of several GPUs on one thread: the recorder enters its
//! context for them, and leaves the thread as it was.

use super::devices::{STEP, two};
use super::rig::{GLOBAL, all_calls, calls, cu, fail_some, function, load_module, loaded, stream};
use metrale_gpu_runtime::timing::{Status, StreamRef};
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::LANE_DECODE;

const SPIN: &str = "
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 duration_ns) { ret; }
";

/// Makes a context current for the time of a call of the application's.
fn within<T>(context: u64, call: impl FnOnce() -> T) -> T {
    assert!(cu!("cuCtxPushCurrent_v2", context => u64).is_success());
    let result = call();
    assert_eq!(popped(), context);
    result
}

/// Takes the current context off the thread's stack; 0 where there is none.
fn popped() -> u64 {
    let mut popped = 0u64;
    let _ = cu!("cuCtxPopCurrent_v2", &raw mut popped => *mut u64);
    popped
}

/// The thread's stack of contexts, from its top, which stays as it is.
fn stack() -> Vec<u64> {
    let from = |context: &u64| *context != 0;
    let stack: Vec<u64> = std::iter::repeat_with(popped).take_while(from).collect();
    for context in stack.iter().rev() {
        assert!(cu!("cuCtxPushCurrent_v2", *context => u64).is_success());
    }
    stack
}

/// What cudarc's default and per-thread streams are: handles that mean a stream
/// of whatever context is current, and the context that they are of.
#[test]
fn one_thread_times_the_default_streams_of_several_gpus() {
    let (app, first, second) = two();
    let spin = within(second.context, || function(load_module(SPIN), c"spin"));
    let gpus = [(&first, app.spin, 1_000), (&second, spin, 3_000)];
    // Nothing is current, one of the two is, or one lies under the other.
    let stacks =
        [vec![], vec![first.context], vec![second.context], vec![first.context, second.context]];
    for (round, given) in (1..).zip(stacks) {
        while popped() != 0 {}
        for context in given.iter().rev() {
            assert!(cu!("cuCtxPushCurrent_v2", *context => u64).is_success());
        }
        for default in [0, 1, 2] {
            for (gpu, spin, ns) in gpus {
                // SAFETY: a default stream lives as long as its context.
                let on =
                    unsafe { StreamRef::from_raw_of(default, super::rig::context(gpu.context)) };
                let pushes = calls("cuCtxPushCurrent_v2");
                let step = gpu.recorder.step();
                let lane = step.lane(LANE_DECODE, on);
                let launch = lane.launch_guard(loaded(spin));
                assert_eq!(stack(), given, "between begin and end");
                let ran = within(gpu.context, || app.launch(spin, default, ns));
                assert!(ran.is_success());
                drop(launch);
                drop(lane);
                assert_eq!(stack(), given, "after the end");
                // A begin, an end and a first name each; none where it is
                // current. The other pushes are the test's.
                let ours = calls("cuCtxPushCurrent_v2") - pushes - 2 * given.len() as u64 - 1;
                let entered = if (round, default) == (1, 0) { 5 } else { 4 };
                let is_current = given.first() == Some(&gpu.context);
                assert_eq!(ours, if is_current { 0 } else { entered });
            }
        }
        control::advance_ns(20_000);
        for (gpu, spin, ns) in gpus {
            assert_eq!(gpu.recorder.harvest(), 6);
            let ledgers = [gpu.recorder.lane_ledger(), gpu.recorder.kernel_ledger()];
            for ledger in ledgers {
                let attempts = 3 * round;
                assert_eq!((ledger.attempts, ledger.landed), (attempts, attempts));
            }
            let [row] = gpu.recorder.kernels().try_into().unwrap();
            assert_eq!((row.func, row.name.as_deref()), (spin, Some("spin")));
            assert_eq!(row.total_ns, 3 * round * ns);
        }
        assert_eq!(stack(), given);
    }
    assert_eq!(control::stale_handle_uses(), 0);
}

/// Whatever the driver says to the push or the pop: a span at most is lost, and
/// the thread has its context again.
#[test]
fn a_context_that_cannot_be_entered_costs_the_span() {
    for (status, is_quarantined) in [
        (Status::ERROR_OUT_OF_MEMORY, false),
        (Status::ERROR_INVALID_CONTEXT, false),
        (Status::ERROR_INVALID_VALUE, false),
        (Status::ERROR_LAUNCH_FAILED, true),
        (Status(54_321), true),
    ] {
        let (_app, first, second) = two();
        // SAFETY: a default stream lives as long as its context.
        let on = unsafe { StreamRef::from_raw_of(2, super::rig::context(second.context)) };
        let lane = || drop(second.recorder.step().lane(LANE_DECODE, on));
        let spans = || {
            let ledger = second.recorder.lane_ledger();
            assert!(ledger.closes());
            (ledger.begun, ledger.refused, ledger.failed)
        };
        // A pop that fails once is made again.
        fail_some("cuCtxPopCurrent_v2", status, 0, 1);
        lane();
        assert_eq!((stack(), spans()), (vec![first.context], (1, 0, 0)));
        // The begin cannot enter, then the end cannot.
        fail_some("cuCtxPushCurrent_v2", status, 0, 1);
        lane();
        control::clear_faults();
        assert_eq!((stack(), spans()), (vec![first.context], (1, 1, 0)));
        let quarantined = is_quarantined.then_some(status);
        assert_eq!(second.recorder.health().quarantined, quarantined);
        if is_quarantined {
            continue;
        }
        fail_some("cuCtxPushCurrent_v2", status, 1, 1);
        lane();
        assert_eq!((stack(), spans()), (vec![first.context], (2, 1, 1)));
        lane();
        assert_eq!((second.recorder.harvest(), spans()), (2, (3, 1, 1)));
        // A thread that cannot be given back: once, and never again.
        fail_some("cuCtxPopCurrent_v2", status, 0, 2);
        let _begun = second.recorder.begin_lane(STEP, LANE_DECODE, on);
        assert_eq!(stack(), [second.context, first.context]);
        assert_eq!(second.recorder.health().quarantined, Some(status));
    }
}

/// Where the record itself stops the recorder the thread is left as it was.
#[test]
fn an_entered_context_is_left_after_a_quarantine() {
    for (call, skip) in [("cuStreamIsCapturing", 0), ("cuEventRecord", 0), ("cuEventRecord", 1)] {
        let (_app, first, second) = two();
        // SAFETY: a default stream lives as long as its context.
        let on = unsafe { StreamRef::from_raw_of(0, super::rig::context(second.context)) };
        fail_some(call, Status::ERROR_LAUNCH_FAILED, skip, 1);
        drop(second.recorder.step().lane(LANE_DECODE, on));
        assert!(second.recorder.health().quarantined.is_some());
        assert_eq!(stack(), [first.context], "{call} {skip}");
    }
}

/// The end of a span that is over costs no call, and a stream that captures
/// costs no more than the question.
#[test]
fn a_context_is_entered_for_nothing_else() {
    let (app, first, second) = two();
    // SAFETY: a default stream lives as long as its context.
    let on = unsafe { StreamRef::from_raw_of(2, super::rig::context(second.context)) };
    let token = second.recorder.begin_lane(STEP, LANE_DECODE, on).unwrap();
    second.recorder.end_lane(token, on);
    let before = all_calls();
    second.recorder.end_lane(token, on);
    second.recorder.cancel_lane(token);
    assert_eq!(all_calls() - before, 1);
    assert_eq!(second.recorder.lane_ledger().stale_ends, 2);

    within(second.context, || app.begin_capture(2, GLOBAL));
    drop(second.recorder.step().lane(LANE_DECODE, on));
    assert_eq!(second.recorder.lane_ledger().refused, 1);
    let ended = within(second.context, || app.end_capture(2));
    assert_eq!(ended, Status::SUCCESS);
    assert_eq!(stack(), [first.context]);

    // A raw handle and another recorder's stream are never entered for.
    let pushes = calls("cuCtxPushCurrent_v2");
    drop(second.recorder.step().lane(LANE_DECODE, stream(2)));
    drop(first.recorder.step().lane(LANE_DECODE, on));
    assert_eq!(calls("cuCtxPushCurrent_v2"), pushes);
    assert_eq!(second.recorder.lane_ledger().refused, 2);
    assert_eq!(first.recorder.lane_ledger().refused, 1);
}
