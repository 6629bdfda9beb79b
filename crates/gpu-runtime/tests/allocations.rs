// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hot path allocates nothing: begins, ends, armed launches of functions
//! and graphs met before, refusals, and harvests that land them. At level `Off`
//! it calls neither clock nor driver and counts nothing either. Over a driver
//! that does nothing, as the simulated one allocates for itself.

#[path = "allocations/basic.rs"]
mod basic;
#[path = "allocations/off.rs"]
mod off;
#[path = "allocations/rig.rs"]
mod rig;
#[path = "allocations/spread.rs"]
mod spread;

use metrale_gpu_runtime::timing::{FuncRef, KernelRef, Recorder, StreamRef};
use metrale_telemetry::Level;
use metrale_telemetry::kernel::{LANE_DECODE, StepShape};
use rig::{allocations, cost, recorder};
use std::sync::Arc;

#[test]
fn the_hot_path_allocates_nothing() {
    let recorder = recorder();
    // SAFETY: this driver reads no stream.
    let stream = unsafe { StreamRef::from_raw(0x80) };
    // SAFETY: as above.
    let capturing = unsafe { StreamRef::from_raw(7) };
    // SAFETY: this driver reads no function.
    let attention = unsafe { KernelRef::from_raw(0x5000) };
    let graph = recorder.graph("decode");
    let serve = |steps: u64| {
        for _ in 0..steps {
            let step = recorder.step();
            step.shape(StepShape::new().decode_tokens(8).requests(8));
            let lane = step.lane(LANE_DECODE, stream);
            drop(lane.launch_guard(attention));
            drop(lane.launch_guard(FuncRef::from_raw(0x6000)));
            drop(lane.launch_guard(graph));
            lane.launch_guard_on(attention, stream).cancel();
            drop(lane.launch_guard_on(attention, capturing));
            drop(lane);
            recorder.harvest();
            let _ = (recorder.health(), recorder.lane_ledger());
        }
    };
    assert!(allocations(|| serve(1)) > 0, "a function that is met has its name copied");
    assert_eq!(allocations(|| serve(2_000)), 0);
    // Not where the ring is full either, nor at the other levels.
    let overflow = || {
        for _ in 0..20_000 {
            let step = recorder.step();
            drop(step.lane(LANE_DECODE, stream).launch_guard(attention));
        }
    };
    assert_eq!(allocations(overflow), 0);
    assert!(recorder.lane_ledger().dropped > 0 && recorder.kernel_ledger().dropped > 0);
    for level in [Level::Off, Level::Basic] {
        recorder.telemetry().set_level(level);
        assert_eq!(allocations(|| serve(10)), 0, "{level}");
    }
    let ledger = recorder.kernel_ledger();
    assert!(ledger.closes() && ledger.landed > 6_000, "{ledger:?}");
    let records = recorder.telemetry().recent_steps();
    assert!(records.steps.iter().any(|step| step.shape.is_some()) && records.overwritten > 0);
    assert_eq!((ledger.cancelled, ledger.refused), (2_001, 2_001));
}

/// One step, by guards and by owned ones.
fn serve_one(recorder: &Arc<Recorder>) {
    // SAFETY: this driver reads no stream.
    let stream = unsafe { StreamRef::from_raw(0x80) };
    let attention = FuncRef::from_raw(0x6000);
    let (step, owned) = (recorder.step(), recorder.step_owned());
    step.shape(StepShape::new().prompt_tokens(512));
    owned.shape(StepShape::new().prompt_tokens(512));
    let lane = step.lane(LANE_DECODE, stream);
    drop(lane.launch_guard(attention));
    let lane = owned.lane(LANE_DECODE, stream);
    assert_eq!(lane.launch(attention, || Ok::<_, ()>(7)), Ok(7));
}

#[test]
fn owned_steps_allocate_nothing() {
    let recorder = Arc::new(recorder());
    serve_one(&recorder);
    recorder.harvest();
    assert_eq!(allocations(|| serve_one(&recorder)), 0);
    recorder.harvest();
    assert_eq!(recorder.lane_ledger().landed, 4);
}

#[test]
fn where_nothing_is_measured_nothing_is_asked() {
    let recorder = Arc::new(Recorder::disabled());
    let before = cost();
    serve_one(&recorder);
    recorder.harvest();
    let _ = (recorder.health(), recorder.lane_ledger());
    assert_eq!(cost(), before);
}
