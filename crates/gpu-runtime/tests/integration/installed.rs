// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder of the process. One test, because it is installed for good.

use super::rig::{App, func, stream};
use metrale_gpu_runtime::timing;
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::{LANE_DECODE, LANE_PREFILL};

#[test]
fn one_recorder_serves_a_stack_without_handles() {
    let app = App::new();
    let here = stream(app.stream);
    timing::lane_begin(LANE_DECODE, here);
    assert_eq!(timing::launch_begin(func(app.spin), here), None);
    assert_eq!(timing::harvest(), 0);
    assert!(timing::installed().is_none());

    timing::install(app.recorder()).unwrap();
    let rejected = timing::install(app.recorder()).unwrap_err();
    rejected.rejected.close();

    for _ in 0..2 {
        for lane in [LANE_PREFILL, LANE_DECODE] {
            timing::lane_begin(lane, here);
            let token = timing::launch_begin(func(app.spin), here).unwrap();
            assert!(app.launch(app.spin, app.stream, 1_000).is_success());
            timing::launch_end(token, here);
            timing::lane_end(lane, here);
            timing::lane_end(lane, here);
        }
        control::advance_ns(1_000_000);
    }
    assert_eq!(timing::harvest(), 8);
    let recorder = timing::installed().unwrap();
    assert_eq!(
        recorder.telemetry().steps(),
        2,
        "prefill and decode are one step"
    );

    // A lane begun again gives the first one up; a lane that is none is ignored.
    timing::lane_begin(LANE_DECODE, here);
    timing::lane_begin(LANE_DECODE, here);
    timing::lane_begin(77, here);
    timing::lane_end(LANE_DECODE, here);
    timing::lane_end(77, here);
    timing::harvest();
    let ledger = recorder.lane_ledger();
    assert_eq!(
        (ledger.cancelled, ledger.landed, ledger.in_flight),
        (1, 5, 0)
    );
    assert!(ledger.closes());
}
