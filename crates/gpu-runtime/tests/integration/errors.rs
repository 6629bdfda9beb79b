// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the recorder makes of a driver that fails.

use super::rig::{App, calls, config, fail, func, stream};
use metrale_gpu_runtime::timing::{DriverError, InstallError, RecorderConfig, Status};
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::LANE_DECODE;

#[test]
fn a_recorder_that_cannot_be_made_leaves_nothing_behind() {
    let app = App::new();
    fail("cuEventCreate", Status::ERROR_OUT_OF_MEMORY, 64 + 129);
    let error = app.try_recorder(config()).unwrap_err();
    assert!(
        matches!(
            error,
            InstallError::Events { asked: 128, made: 1, status: Status::ERROR_OUT_OF_MEMORY }
        ),
        "{error}"
    );
    assert_eq!(calls("cuEventDestroy_v2"), 64 + 129, "those that were made");
    control::clear_faults();

    for (asked, config) in [
        (0, RecorderConfig { lane_slots: 0, ..config() }),
        (1 << 25, RecorderConfig { kernel_slots: 1 << 25, ..config() }),
    ] {
        let error = app.try_recorder(config).unwrap_err();
        assert!(
            matches!(error, InstallError::Slots { asked: found, .. } if found == asked),
            "{error}"
        );
    }
    fail("cuDeviceGetCount", Status::ERROR_NO_DEVICE, 0);
    let error = app.try_recorder(config()).unwrap_err();
    assert!(matches!(error, InstallError::Driver(DriverError::NoDevice { .. })), "{error}");
}

#[test]
fn nothing_is_initialised_for_an_application_that_did_not() {
    let _alone = metrale_gpu_sim::exclusive();
    // SAFETY: the recorder is not made, so the context is never used.
    let made = unsafe {
        metrale_gpu_runtime::timing::Recorder::from_raw(
            super::rig::driver(),
            super::rig::context(0x1000),
            super::rig::telemetry(),
            config(),
        )
    };
    let Err(InstallError::Driver(DriverError::NoDevice { status, .. })) = made else {
        panic!("{made:?}");
    };
    assert_eq!(status, Status::ERROR_NOT_INITIALIZED);
    assert_eq!(calls("cuInit"), 0);
}

/// The end is recorded on a stream that is ahead of the start's: a time below
/// zero is counted, and is no sample.
#[test]
fn a_negative_time_is_no_sample() {
    let app = App::new();
    let recorder = app.recorder();
    let idle = app.new_stream();
    assert!(app.launch(app.spin, app.stream, 50_000).is_success());
    let step = metrale_telemetry::Step::armed(0, 0);
    let token = recorder.begin_lane(step, LANE_DECODE, stream(app.stream));
    recorder.end_lane(token.unwrap(), stream(idle));
    let token = recorder.begin_launch(step, LANE_DECODE, func(app.spin), stream(app.stream));
    recorder.end_launch(token.unwrap(), stream(idle));
    for _ in 0..2 {
        assert_eq!(recorder.harvest(), 0);
        control::advance_ns(50_000);
    }
    assert_eq!(recorder.health().invalid_times, 2);
    for ledger in [recorder.lane_ledger(), recorder.kernel_ledger()] {
        assert_eq!((ledger.failed, ledger.in_flight), (1, 0));
    }
    let instruments = recorder.telemetry().instruments();
    assert_eq!(instruments.lane[LANE_DECODE].count(), 0);
    assert_eq!(recorder.kernels(), []);
}

/// A wrapped tick of -1 ns reads as 584 years: nobody waited for that.
#[test]
fn a_time_that_cannot_be_is_no_sample() {
    const HOUR_MS: f32 = 3.6e6;
    let impossible = [
        f32::NAN,
        f32::from_bits(0x7fa1_2345),
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MAX,
        1.8e13,
        HOUR_MS * 1.001,
        -0.001,
    ];
    let app = App::new();
    let recorder = app.recorder();
    let lane = || drop(recorder.step().lane(LANE_DECODE, stream(app.stream)));
    let instruments = recorder.telemetry().instruments();
    lane();
    assert_eq!(recorder.harvest(), 1);
    for (number, ms) in (1..).zip(impossible) {
        lane();
        control::tell_elapsed(ms, 0, 1);
        assert_eq!(recorder.harvest(), 0, "{ms}");
        assert_eq!(recorder.health().invalid_times, number, "{ms}");
        assert_eq!(recorder.lane_ledger().failed, number, "{ms}");
    }
    // A span of an hour may be, where an hour went by; so may a gap of a night, but
    // not of 584 years.
    lane();
    control::advance_ns(3_600_000_000_000);
    control::tell_elapsed(HOUR_MS, 0, 1);
    assert_eq!(recorder.harvest(), 1);
    control::advance_ns(7 * 3_600_000_000_000);
    let gaps = || instruments.lane_gap[LANE_DECODE].snapshot().count();
    let known = gaps();
    for (ms, is_known) in [(8.0 * HOUR_MS, true), (1.8e13, false), (f32::MAX, false)] {
        lane();
        // After the span's own time and its place.
        control::tell_elapsed(ms, 2, 1);
        let before = (gaps(), recorder.health().invalid_times);
        assert_eq!(recorder.harvest(), 1, "the gap costs no span");
        assert_eq!(gaps() - before.0, u64::from(is_known), "{ms}");
        let invalid = recorder.health().invalid_times - before.1;
        assert_eq!(invalid, u64::from(!is_known), "{ms}");
    }
    assert_eq!(gaps(), known + 1);
    // Nor is a place that cannot be one: it costs its step the places.
    let unplaced = || recorder.telemetry().snapshot().losses.unplaced_steps;
    for ms in impossible.into_iter().filter(|ms| *ms != -0.001) {
        lane();
        control::tell_elapsed(ms, 1, 1);
        let before = (unplaced(), recorder.health().invalid_times);
        assert_eq!(recorder.harvest(), 1, "the place costs no span");
        assert_eq!(unplaced() - before.0, 1, "{ms}");
        assert_eq!(recorder.health().invalid_times, before.1, "{ms}");
    }
    // The hour, and otherwise spans of nothing.
    let sum = instruments.lane[LANE_DECODE].snapshot().sum_ns();
    assert_eq!(sum, 3_600_000_000_000);
}

/// A span began after the last pass that was over before its begin. It cannot have
/// taken longer than the time since then, however the two clocks differ; and what
/// it did take is a sample, however long and whatever passes there were meanwhile.
#[test]
fn a_span_takes_no_longer_than_the_time_since_the_pass_before_it() {
    const SECOND: u64 = 1_000_000_000;
    let app = App::new();
    let recorder = app.recorder();
    let lane = || drop(recorder.step().lane(LANE_DECODE, stream(app.stream)));
    let counts = || {
        let lanes = &recorder.telemetry().instruments().lane[LANE_DECODE];
        let snapshot = lanes.snapshot();
        let invalid = recorder.health().invalid_times;
        (snapshot.count(), snapshot.sum_ns() / SECOND, invalid)
    };
    // Since the recorder was made, or since an idle pass.
    for (number, idle_s) in (1..).zip([0, 1_000]) {
        control::advance_ns(idle_s * SECOND);
        recorder.harvest();
        lane();
        control::tell_elapsed(1_001.0, 0, 1);
        recorder.harvest();
        assert_eq!(counts(), (0, 0, number));
    }
    // A tenth more, and a second; the bound is by the pass before the begin, not
    // by those since.
    let mut expected = (0, 0, 2);
    for (told_s, is_sample) in [(111.0, true), (111.1, false)] {
        lane();
        let held = recorder.step();
        let open = held.lane(LANE_DECODE, stream(app.stream));
        assert!(app.launch(app.spin, app.stream, 100 * SECOND).is_success());
        drop(open);
        drop(held);
        for _ in 0..99 {
            control::advance_ns(SECOND);
            recorder.harvest();
        }
        expected.0 += 1;
        assert_eq!(counts(), expected, "the span of nothing");
        control::advance_ns(SECOND);
        control::tell_elapsed(told_s * 1e3, 0, 1);
        recorder.harvest();
        if is_sample {
            expected = (expected.0 + 1, expected.1 + 111, expected.2);
        } else {
            expected.2 += 1;
        }
        assert_eq!(counts(), expected, "{told_s} s");
    }
    let ledger = recorder.lane_ledger();
    assert!(ledger.closes() && ledger.in_flight == 0, "{ledger:?}");
    assert_eq!(ledger.failed, expected.2);
}

/// Whatever the driver answers, what is exported never falls.
#[test]
fn no_counter_falls_whatever_the_driver_answers() {
    let app = App::new();
    let recorder = app.recorder();
    let told = [i64::MAX as f32 / 1e6, 1.8e13, f32::MAX, f32::MIN, f32::NAN, 1e3, 3.6e6, -1.0, 0.0];
    let totals = || {
        let snapshot = recorder.telemetry().snapshot();
        let kernels: Vec<_> = recorder.kernels().iter().map(|row| row.total_ns).collect();
        let lane = &snapshot.lanes[LANE_DECODE];
        (lane.gpu.sum_ns(), lane.gap.sum_ns(), kernels)
    };
    let mut before = (0, 0, vec![0]);
    for round in 0..5 * told.len() {
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, stream(app.stream));
        drop(lane.launch_guard(func(app.spin)));
        drop(lane);
        drop(step);
        control::advance_ns(1_000_000);
        // Of a lane's three reads and a launch's two, each in turn.
        for read in 0..5 {
            control::tell_elapsed(told[(round + read) % told.len()], 0, 1);
        }
        recorder.harvest();
        control::clear_faults();
        let now = totals();
        assert!(now.0 >= before.0 && now.1 >= before.1, "{now:?} after {before:?}");
        assert!(now.2.first() >= before.2.first() || now.2.is_empty());
        before = now;
    }
    assert!(before.0 > 0 && recorder.health().invalid_times > 0);
}
