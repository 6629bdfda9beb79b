// SPDX-License-Identifier: MIT OR Apache-2.0
//! Level `Off` costs nothing, and levels change under open spans.

use super::rig::{cost, recorder};
use metrale_gpu_runtime::timing::{self, FuncRef, KernelRef, Recorder, StreamRef};
use metrale_telemetry::kernel::{LANE_ADMIT, LANE_DECODE, StepShape};
use metrale_telemetry::{Level, Step};
use std::sync::atomic::{AtomicBool, Ordering};

/// Everything that is counted anywhere.
fn counted(recorder: &Recorder) -> String {
    let (telemetry, instruments) = (recorder.telemetry(), recorder.telemetry().instruments());
    format!(
        "{:?}",
        (
            recorder.lane_ledger(),
            recorder.kernel_ledger(),
            recorder.health(),
            telemetry,
            telemetry.host(),
            instruments.kernels(),
        )
    )
}

#[test]
fn off_costs_nothing() {
    timing::install(recorder()).unwrap();
    let recorder = timing::installed().unwrap();
    // SAFETY: this driver reads no stream.
    let stream = unsafe { StreamRef::from_raw(0x80) };
    let attention = FuncRef::from_raw(0x5000);
    let graph = recorder.graph("decode");
    let armed = Step::armed(1, 1);
    // Every entry point of a serving thread, guards, tokens and functions.
    let serve = || {
        let step = recorder.step();
        step.shape(StepShape::new().decode_tokens(8));
        timing::step_shape(StepShape::new().decode_tokens(8));
        let lane = step.lane(LANE_DECODE, stream);
        drop(lane.launch_guard(attention));
        drop(lane.launch_guard(graph));
        lane.launch_guard_on(attention, stream).cancel();
        drop(lane);
        drop(step);
        for kernel in [attention.into(), KernelRef::from(graph)] {
            if let Some(token) = recorder.begin_launch(armed, LANE_DECODE, kernel, stream) {
                recorder.end_launch(token, stream);
            }
        }
        if let Some(token) = recorder.begin_lane(armed, LANE_DECODE, stream) {
            recorder.end_lane(token, stream);
        }
        for lane in [LANE_ADMIT, LANE_DECODE] {
            timing::lane_begin(lane, stream);
            if let Some(token) = timing::launch_begin(attention, stream) {
                timing::launch_end(token, stream);
            }
            timing::lane_end(lane, stream);
        }
        recorder.harvest() + timing::harvest()
    };
    let (before, counts) = (cost(), counted(recorder));
    assert!(serve() > 0);
    assert!(cost()[1] > before[1] && cost()[2] > before[2], "{:?}", cost());
    assert_ne!(counted(recorder), counts);

    recorder.telemetry().set_level(Level::Off);
    let counts = counted(recorder);
    let before = cost();
    for _ in 0..100 {
        assert_eq!(serve(), 0);
    }
    assert_eq!(cost(), before, "allocations, driver calls, clock reads");
    assert_eq!(counted(recorder), counts);

    // What was open when the level changed is ended and harvested.
    recorder.telemetry().set_level(Level::Kernel);
    timing::lane_begin(LANE_DECODE, stream);
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream);
    let launch = lane.launch_guard(attention);
    recorder.telemetry().set_level(Level::Off);
    drop(launch);
    drop(lane);
    timing::lane_end(LANE_DECODE, stream);
    assert_eq!(recorder.harvest(), 3);
    let whole = recorder.lane_ledger().plus(recorder.kernel_ledger());
    assert!(whole.closes() && whole.in_flight == 0, "{whole:?}");
}

#[test]
fn levels_change_under_open_spans() {
    const THREADS: u64 = 3;
    const STEPS: u64 = 4_000;
    let recorder = recorder();
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let serving: Vec<_> = (0..THREADS)
            .map(|n| {
                let recorder = &recorder;
                threads.spawn(move || {
                    // SAFETY: this driver reads no stream.
                    let stream = unsafe { StreamRef::from_raw(0x80 + n) };
                    let function = FuncRef::from_raw(0x5000 + n);
                    for number in 0..STEPS {
                        let step = recorder.step();
                        let lane = step.lane(LANE_DECODE, stream);
                        let launch = lane.launch_guard(function);
                        if number % 7 == n {
                            let level = Level::ALL[(number / 7 % 3) as usize];
                            recorder.telemetry().set_level(level);
                        }
                        if number % 5 == 0 {
                            launch.cancel();
                        } else {
                            drop(launch);
                        }
                        drop(lane);
                        if number % 11 == 0 {
                            recorder.harvest();
                        }
                    }
                })
            })
            .collect();
        threads.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                recorder.harvest();
                std::thread::yield_now();
            }
        });
        for thread in serving {
            thread.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    recorder.telemetry().set_level(Level::Off);
    recorder.harvest();
    for ledger in [recorder.lane_ledger(), recorder.kernel_ledger()] {
        assert!(ledger.closes() && ledger.landed > 0, "{ledger:?}");
        let over = (ledger.in_flight, ledger.failed, ledger.stale_ends);
        assert_eq!(over, (0, 0, 0));
    }
    let steps = recorder.telemetry().steps();
    assert!(0 < steps && steps < THREADS * STEPS, "{steps}");
}
