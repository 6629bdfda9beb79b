// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads on the simulated driver, and every driver call that the
//! recorder makes in them, from the simulator's log. The numbers are exact:
//! they depend on no machine and no clock.

use crate::app::{launch, recorder, step, stream_ref};
use metrale_gpu_runtime::timing::{FuncRef, Recorder};
use metrale_gpu_sim::app::App;
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::LANE_DECODE;
use metrale_telemetry::{Level, Step};
use std::collections::BTreeMap;

/// Calls by the name of the driver function.
pub type Calls = BTreeMap<&'static str, u64>;

/// A workload: its name in `limits.toml`, and what runs it and counts the
/// recorder's calls.
pub type Workload = (&'static str, fn() -> Calls);

/// All of them.
pub const WORKLOADS: &[Workload] = &[
    ("off", || steps(Level::Off)),
    ("basic", || steps(Level::Basic)),
    ("kernel", || steps(Level::Kernel)),
    ("idle", idle),
    ("landed_1", || landed(1)),
    ("landed_10", || landed(10)),
    ("landed_100", || landed(100)),
    ("landed_1000", || landed(1_000)),
    ("waiting_1", || waiting(1)),
    ("waiting_2", || waiting(2)),
    ("waiting_4", || waiting(4)),
    ("waiting_8", || waiting(8)),
    ("half_landed_8", || half_landed(8)),
    ("left_open", left_open),
];

const ARMED: Step = Step::armed(0, 0);

/// What the recorder calls while `work` runs; the application launches only.
fn count(work: impl FnOnce()) -> Calls {
    control::log_clear();
    control::log_start();
    work();
    control::log_stop();
    assert_eq!(control::log_not_kept(), 0, "the log is too short");
    let mut calls = Calls::new();
    for call in control::log() {
        if call.name != "cuLaunchKernel" {
            *calls.entry(call.name).or_default() += 1;
        }
    }
    calls
}

/// `spans` launches of 1 µs, each timed.
fn spans(app: &App, recorder: &Recorder, stream: u64, spans: usize) {
    for _ in 0..spans {
        let spin = FuncRef::from_raw(app.spin);
        let token = recorder
            .begin_launch(ARMED, LANE_DECODE, spin, stream_ref(stream))
            .expect("a free slot");
        launch(app, stream, 1_000);
        recorder.end_launch(token, stream_ref(stream));
    }
}

fn lands(recorder: &Recorder, spans: usize) {
    assert_eq!(recorder.harvest(), spans);
}

/// Ten armed steps of three lanes with eight launches each, harvested after
/// every step.
fn steps(level: Level) -> Calls {
    let app = App::default();
    let recorder = recorder(&app, level, 1, None);
    let timed = if level == Level::Kernel { 3 * 9 } else { 0 };
    count(|| {
        for _ in 0..10 {
            step(&app, Some(&recorder), 8);
            control::advance_ns(1_000_000);
            lands(&recorder, timed);
        }
    })
}

/// Ten passes after everything landed.
fn idle() -> Calls {
    let app = App::default();
    let recorder = recorder(&app, Level::Kernel, 1, None);
    spans(&app, &recorder, app.stream, 100);
    control::advance_ns(1_000_000);
    lands(&recorder, 100);
    count(|| (0..10).for_each(|_| lands(&recorder, 0)))
}

/// So many spans on one stream, and the pass that lands them.
fn landed(number: usize) -> Calls {
    let app = App::default();
    let recorder = recorder(&app, Level::Kernel, 1, None);
    count(|| {
        spans(&app, &recorder, app.stream, number);
        control::advance_ns(10_000_000);
        lands(&recorder, number);
    })
}

/// One pass while a hundred spans wait on each of so many streams.
fn waiting(streams: usize) -> Calls {
    let app = App::default();
    let streams: Vec<u64> = (0..streams).map(|_| app.new_stream()).collect();
    let recorder = recorder(&app, Level::Kernel, 1, None);
    for &stream in &streams {
        launch(&app, stream, 1_000_000);
        spans(&app, &recorder, stream, 100);
    }
    count(|| lands(&recorder, 0))
}

/// One pass over so many streams, each with ten spans that are done and ten
/// that are not.
fn half_landed(streams: usize) -> Calls {
    let app = App::default();
    let streams: Vec<u64> = (0..streams).map(|_| app.new_stream()).collect();
    let recorder = recorder(&app, Level::Kernel, 1, None);
    for &stream in &streams {
        spans(&app, &recorder, stream, 10);
        launch(&app, stream, 1_000_000);
        spans(&app, &recorder, stream, 10);
    }
    control::advance_ns(500_000);
    count(|| lands(&recorder, 10 * streams.len()))
}

/// Ten passes over a span left open and a thousand spans after it, of which
/// the first pass lands all.
fn left_open() -> Calls {
    let app = App::default();
    let recorder = recorder(&app, Level::Kernel, 1, None);
    let (spin, stream) = (FuncRef::from_raw(app.spin), app.stream);
    let open = recorder.begin_launch(ARMED, LANE_DECODE, spin, stream_ref(stream));
    assert!(open.is_some());
    spans(&app, &recorder, stream, 1_000);
    control::advance_ns(10_000_000);
    count(|| {
        lands(&recorder, 1_000);
        (1..10).for_each(|_| lands(&recorder, 0));
    })
}
