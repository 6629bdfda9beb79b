// SPDX-License-Identifier: MIT OR Apache-2.0
//! How old the spans are that do not land: of work that never ends, of a call
//! into the driver that does not come back, of a host that ends nothing.

use super::rig::{self, App, func, own_thread, stream};
use metrale_gpu_runtime::timing::{Recorder, Status};
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::{LANE_DECODE, LANE_PREFILL};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// Seconds of the oldest open and the oldest closed span.
fn ages(recorder: &Recorder) -> (Option<u64>, Option<u64>) {
    let health = recorder.health();
    let seconds = |age: Option<Duration>| age.map(|age| age.as_secs());
    (seconds(health.oldest_open), seconds(health.oldest_closed))
}

/// Ring, name, stream, whether it is open, seconds: what the recorder says, and
/// its snapshot too.
type Told = (String, Option<String>, Option<u64>, bool, Option<u64>);

fn told(recorder: &Recorder) -> Vec<Told> {
    let oldest = recorder.oldest_spans();
    let recorders = recorder.telemetry().snapshot().recorders;
    assert_eq!(recorders[0].oldest, oldest);
    let tell = |span: metrale_telemetry::snapshot::OldestSpanSnapshot| {
        let age = span.age_ns.map(|ns| ns / SECOND);
        (span.ring, span.name, span.stream, span.is_open, age)
    };
    oldest.into_iter().map(tell).collect()
}

fn lanes(lane: &str, on: Option<u64>, age: Option<u64>) -> Told {
    ("lanes".into(), Some(lane.into()), on, on.is_none(), age)
}

fn kernels(row: &str, on: Option<u64>, age: Option<u64>) -> Told {
    ("kernels".into(), Some(row.into()), on, on.is_none(), age)
}

#[test]
fn work_that_never_ends_grows_old() {
    let app = App::new();
    let recorder = app.recorder();
    recorder.name(func(app.spin), "hangs");
    assert_eq!((ages(&recorder), told(&recorder)), ((None, None), vec![]));

    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    let launch = lane.launch_guard(func(app.spin));
    assert!(app.launch(app.spin, app.stream, u64::MAX / 4).is_success());
    drop(launch);
    control::advance_ns(SECOND);
    // No pass has seen them yet.
    assert_eq!(ages(&recorder), (None, None));
    let on = Some(app.stream);
    let expected = [lanes("decode", None, None), kernels("hangs", on, None)];
    assert_eq!(told(&recorder), expected);

    assert_eq!(recorder.harvest(), 0);
    assert_eq!(ages(&recorder), (Some(0), Some(0)));
    control::advance_ns(31 * SECOND);
    assert_eq!(ages(&recorder), (Some(31), Some(31)));
    drop(lane);
    for age in [31, 41] {
        assert_eq!(recorder.harvest(), 0);
        // The lane's span waits since the first pass after its end, if not as long
        // as its launch.
        assert_eq!(ages(&recorder), (None, Some(age)));
        control::advance_ns(10 * SECOND);
    }
    let expected = [lanes("decode", on, Some(20)), kernels("hangs", on, Some(51))];
    assert_eq!(told(&recorder), expected);

    drop(step);
    let telemetry = recorder.telemetry();
    recorder.close();
    let closed = &telemetry.snapshot().recorders[0];
    assert_eq!((closed.oldest.len(), closed.lane_ledger.in_flight), (0, 1));
}

/// What the host does not end is open, however old, and so is never closed.
#[test]
fn a_span_that_is_left_open_is_told_apart() {
    let app = App::new();
    let recorder = app.recorder();
    let step = recorder.step();
    let open = step.lane(LANE_PREFILL, stream(app.stream));
    assert_eq!(recorder.harvest(), 0);
    control::advance_ns(40 * SECOND);
    for _ in 0..3 {
        drop(step.lane(LANE_DECODE, stream(app.stream)));
        assert_eq!(recorder.harvest(), 1);
    }
    assert_eq!(ages(&recorder), (Some(40), None));
    let expected = [lanes("prefill", None, Some(40))];
    assert_eq!(told(&recorder), expected);
    drop(open);
    assert_eq!(recorder.harvest(), 1);
    assert_eq!((ages(&recorder), told(&recorder)), ((None, None), vec![]));
}

/// The recorder's thread is in the call; another one reads.
#[test]
fn the_age_grows_while_a_poll_hangs() {
    for hung in ["cuEventQuery", "cuEventElapsedTime_v2"] {
        let app = App::new();
        let recorder = app.try_recorder(own_thread()).unwrap();
        control::hang(hung).unwrap();
        drop(recorder.step().lane(LANE_DECODE, stream(app.stream)));
        rig::wait_until_hung(hung, 1);
        for age in [0, 31, 62] {
            assert_eq!(ages(&recorder), (None, Some(age)), "{hung}");
            let expected = [lanes("decode", Some(app.stream), Some(age))];
            assert_eq!(told(&recorder), expected, "{hung}");
            control::advance_ns(31 * SECOND);
        }
        control::release(hung).unwrap();
        rig::wait_for(|| recorder.lane_ledger().in_flight == 0);
        assert_eq!((ages(&recorder), told(&recorder)), ((None, None), vec![]));
        recorder.close();
    }
}

/// A recorder that was stopped gives up what waited: nothing of it is stuck.
#[test]
fn what_a_quarantine_gave_up_is_not_old() {
    let app = App::new();
    let recorder = app.recorder();
    drop(recorder.step().lane(LANE_DECODE, stream(app.stream)));
    rig::fail_some("cuEventQuery", Status::ERROR_LAUNCH_FAILED, 0, 1);
    assert_eq!(recorder.harvest(), 0);
    control::advance_ns(40 * SECOND);
    let health = recorder.health();
    assert_eq!(health.quarantined, Some(Status::ERROR_LAUNCH_FAILED));
    assert_eq!((ages(&recorder), told(&recorder)), ((None, None), vec![]));
}
