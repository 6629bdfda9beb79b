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

use metrale_gpu_runtime::timing::{FuncRef, KernelRef, StreamRef};
use metrale_telemetry::Level;
use metrale_telemetry::kernel::LANE_DECODE;
use rig::{allocations, recorder};

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
    assert!(
        allocations(|| serve(1)) > 0,
        "a function that is met has its name copied"
    );
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
    assert_eq!((ledger.cancelled, ledger.refused), (2_001, 2_001));
}
