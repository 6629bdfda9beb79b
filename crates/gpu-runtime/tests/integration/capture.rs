// SPDX-License-Identifier: MIT OR Apache-2.0
//! The application's captures survive whatever the recorder does beside them.

use super::rig::{App, GLOBAL, cu, stream};
use metrale_gpu_runtime::timing::Status;
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::LANE_DECODE;
use std::ffi::c_uint;

#[test]
fn an_invalidated_capture_is_capturing_too() {
    let app = App::new();
    let recorder = app.recorder();
    app.begin_capture(app.stream, GLOBAL);
    let event_wait = cu!("cuStreamSynchronize", app.stream => u64);
    assert_eq!(event_wait, Status::ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(app.capture_status(app.stream), 2, "the application broke its own capture");
    drop(recorder.step().lane(LANE_DECODE, stream(app.stream)));
    assert_eq!(recorder.lane_ledger().refused, 1);
    assert_eq!(app.end_capture(app.stream), Status::ERROR_STREAM_CAPTURE_INVALIDATED);
}

#[test]
fn the_legacy_stream_is_refused_while_a_blocking_stream_captures_and_on_request() {
    let app = App::new();
    let recorder = app.recorder();
    let mut blocking = 0u64;
    let made = cu!("cuStreamCreate", &raw mut blocking => *mut u64, 0 => c_uint);
    assert!(made.is_success());
    app.begin_capture(blocking, GLOBAL);
    drop(recorder.step().lane(LANE_DECODE, stream(0)));
    assert_eq!(app.end_capture(blocking), Status::SUCCESS);
    assert_eq!(recorder.lane_ledger().refused, 1);
    drop(recorder.step().lane(LANE_DECODE, stream(0)));
    assert_eq!(recorder.lane_ledger().begun, 1);

    let strict = metrale_gpu_runtime::timing::RecorderConfig {
        refuse_legacy_streams: true,
        ..super::rig::config()
    };
    let strict = app.try_recorder(strict).unwrap();
    for legacy in [0, 1] {
        drop(strict.step().lane(LANE_DECODE, stream(legacy)));
    }
    drop(strict.step().lane(LANE_DECODE, stream(2)));
    let ledger = strict.lane_ledger();
    assert_eq!((ledger.refused, ledger.begun), (2, 1));
    assert_eq!(control::stale_handle_uses(), 0);
}

/// A driver whose relaxed mode protected no other thread's capture, which NVIDIA
/// says of none: the capture breaks, and the spans are kept.
#[test]
fn in_a_strict_driver_a_poll_breaks_the_capture_of_another_thread() {
    let app = App::new();
    control::set_strict_captures(true);
    let recorder = app.recorder();
    drop(recorder.step().lane(LANE_DECODE, stream(app.stream)));
    let capturing = app.new_stream();
    app.begin_capture(capturing, GLOBAL);
    std::thread::scope(|scope| {
        let harvested = scope.spawn(|| recorder.harvest()).join().unwrap();
        assert_eq!(harvested, 0);
    });
    assert_eq!(app.end_capture(capturing), Status::ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_eq!(recorder.health().polls_refused, 1);
    assert_eq!([(); 2].map(|()| recorder.harvest()), [0, 1]);

    // The capturing thread may harvest, and so may all beside other captures.
    drop(recorder.step().lane(LANE_DECODE, stream(app.stream)));
    app.begin_capture(capturing, GLOBAL);
    assert_eq!(recorder.harvest(), 1);
    assert_eq!(app.end_capture(capturing), Status::SUCCESS);
}
