// SPDX-License-Identifier: MIT OR Apache-2.0
//! Level `Basic`: what the host did, by the host's clock, without the driver.

use super::rig::{allocations, cost, recorder};
use metrale_gpu_runtime::timing::{FuncRef, StreamRef};
use metrale_telemetry::kernel::{LANE_DECODE, LANE_PREFILL};
use metrale_telemetry::{Level, Step};

const FUNCTION: FuncRef = FuncRef::from_raw(0x5000);

#[test]
fn steps_lanes_and_launches_are_measured_without_the_driver() {
    let recorder = recorder();
    // SAFETY: this driver reads no stream.
    let stream = unsafe { StreamRef::from_raw(0x80) };
    let graph = recorder.graph("decode");
    let host = recorder.telemetry().host();
    recorder.telemetry().set_level(Level::Basic);
    let before = cost();
    let serve = || {
        let step = recorder.step();
        assert!(!step.is_armed());
        let prefill = step.lane(LANE_PREFILL, stream);
        drop(prefill.launch_guard(FUNCTION));
        drop(prefill.launch_guard(FUNCTION));
        prefill.launch_guard(FUNCTION).cancel();
        drop(prefill);
        drop(step.lane(77, stream));
        let decode = step.lane(LANE_DECODE, stream);
        drop(decode.launch_guard(graph));
        drop(decode.launch_guard_on(graph, stream));
    };
    assert_eq!(allocations(|| (0..100).for_each(|_| serve())), 0);
    let after = cost();
    assert_eq!(after[1], before[1], "driver calls");
    assert_eq!(after[2] - before[2], 800, "two reads a step and a lane");
    assert_eq!(recorder.telemetry().steps(), 100);
    // Each read of the clock moves it on by a microsecond.
    let wall = host.step_wall.snapshot();
    assert_eq!((wall.count(), wall.sum_ns()), (100, 100 * 7_000));
    let wall = host.lane_wall.each_ref().map(|lane| lane.snapshot());
    assert_eq!(wall.each_ref().map(|lane| lane.count()), [0, 100, 100]);
    assert_eq!(wall.map(|lane| lane.sum_ns()), [0, 100_000, 100_000]);
    assert_eq!((host.launches.get(), host.graph_launches.get()), (200, 200));
    assert_eq!(recorder.lane_ledger().attempts, 0);

    // Launches as tokens are counted too, timed or not.
    for step in [Step::numbered(0), Step::armed(0, 0)] {
        assert_eq!(recorder.begin_launch(step, 0, FUNCTION, stream), None);
        assert_eq!(recorder.begin_launch(step, 0, graph, stream), None);
    }
    assert_eq!((host.launches.get(), host.graph_launches.get()), (202, 202));
    assert_eq!(cost()[1], before[1], "driver calls");
}

#[test]
fn a_step_that_ends_at_off_is_not_counted() {
    let recorder = recorder();
    // SAFETY: this driver reads no stream.
    let stream = unsafe { StreamRef::from_raw(0x80) };
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream);
    drop(lane.launch_guard(FUNCTION));
    recorder.telemetry().set_level(Level::Off);
    drop(lane);
    drop(step);
    let host = recorder.telemetry().host();
    let walls = host.step_wall.count() + host.lane_wall[LANE_DECODE].count();
    assert_eq!((walls, host.launches.get()), (0, 0));
    // At `Kernel` the host's numbers are there besides the spans.
    recorder.telemetry().set_level(Level::Kernel);
    let step = recorder.step();
    drop(step.lane(LANE_DECODE, stream).launch_guard(FUNCTION));
    drop(step);
    assert_eq!(host.step_wall.count(), 1);
    assert_eq!(host.lane_wall[LANE_DECODE].count(), 1);
    assert_eq!(host.launches.get(), 1);
    assert_eq!(recorder.harvest(), 4);
}
