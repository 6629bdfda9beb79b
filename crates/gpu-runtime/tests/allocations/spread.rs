// SPDX-License-Identifier: MIT OR Apache-2.0
//! Launches that are sampled one by one, by guards and by tokens alike.

use super::rig::{allocations, cost, recorder};
use metrale_gpu_runtime::timing::{FuncRef, StreamRef};
use metrale_telemetry::kernel::{LANE_DECODE, LANE_PREFILL};
use metrale_telemetry::{Level, Sampling, TelemetryConfig};

#[test]
fn one_launch_in_each_block_is_timed_on_whatever_step_it_is() {
    const STEPS: u64 = 640;
    let recorder = recorder();
    let telemetry = recorder.telemetry();
    let config = TelemetryConfig { sampling: Sampling::Spread, ..TelemetryConfig::DEFAULT };
    telemetry.configure(config).unwrap();
    // SAFETY: this driver reads no stream.
    let stream = unsafe { StreamRef::from_raw(0x80) };
    let function = FuncRef::from_raw(0x5000);
    let mut most = 0;
    let mut serve = || {
        let step = recorder.step();
        assert!(!step.is_armed());
        let lane = step.lane(LANE_DECODE, stream);
        let mut timed = 0;
        for _ in 0..8 {
            timed += u64::from(lane.launch_guard(function).is_timed());
        }
        drop(lane);
        let number = step.step();
        for _ in 0..8 {
            if let Some(token) = recorder.begin_launch(number, LANE_PREFILL, function, stream) {
                recorder.end_launch(token, stream);
                timed += 1;
            }
        }
        most = most.max(timed);
        recorder.harvest();
    };
    assert_eq!(allocations(|| (0..STEPS).for_each(|_| serve())), 0);
    let sampled = STEPS * 16 / 64;
    assert_eq!(telemetry.sampled_launches(), sampled);
    assert_eq!((telemetry.steps(), telemetry.armed_steps()), (STEPS, 0));
    assert!(most <= 2, "a block chooses one of its 64: {most} on one step");
    let rows = telemetry.instruments().kernels();
    assert_eq!(rows.iter().map(|row| row.samples).sum::<u64>(), sampled);
    assert_eq!(recorder.kernel_ledger().landed, sampled);
    assert_eq!(telemetry.host().launches.get(), STEPS * 16);
    // The driver's answer is a microsecond for every span.
    let rows = telemetry.instruments().kernels();
    let total_ns = rows.iter().map(|row| row.total_ns).sum::<u64>();
    assert_eq!(total_ns, sampled * 1_000);
    let estimates = telemetry.kernel_estimates();
    let lanes: Vec<_> = estimates.iter().map(|kernel| kernel.lane).collect();
    assert_eq!(lanes, [LANE_DECODE], "prefill had launches and no span");
    assert!(telemetry.step_losses().unpaired_steps > 0);

    // At `Basic` no launch is chosen.
    telemetry.set_level(Level::Basic);
    let before = cost();
    (0..100).for_each(|_| drop(recorder.step().lane(LANE_DECODE, stream).launch_guard(function)));
    assert_eq!(cost()[1], before[1], "driver calls");
    assert_eq!(telemetry.sampled_launches(), sampled);
}
