// SPDX-License-Identifier: MIT OR Apache-2.0
//! Old drivers, odd ones, and none.

use super::rig::{App, calls, config, loaded, stream};
use metrale_gpu_runtime::timing::{Driver, DriverError, InstallError, Recorder, Status};
use metrale_gpu_sim::app::driver;
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::LANE_DECODE;
use std::path::Path;

/// What each driver brought, by the symbol tables of NVIDIA's libraries.
#[test]
fn every_driver_since_11_4_serves_with_what_it_has() {
    for (version, ids, names, elapsed_v2) in [
        (11_040, false, false, false),
        (12_000, true, false, false),
        (12_020, true, false, false),
        (12_030, true, true, false),
        (12_040, true, true, false),
        (12_080, true, true, true),
        (13_000, true, true, true),
    ] {
        let app = App::new();
        control::hide_newer_than(version as u32);
        control::set_driver_version(version);
        let recorder = app.recorder();
        assert_eq!(recorder.driver().unwrap().version(), version);
        for _ in 0..3 {
            let step = recorder.step();
            let lane = step.lane(LANE_DECODE, stream(app.stream));
            let launch = lane.launch_guard(loaded(app.spin));
            assert!(app.launch(app.spin, app.stream, 5_000).is_success());
            drop(launch);
        }
        control::advance_ns(15_000);
        assert_eq!(recorder.harvest(), 6);
        let [row] = recorder.kernels().try_into().unwrap();
        assert_eq!((row.total_ns, row.samples), (15_000, 3));
        assert_eq!(row.name.as_deref(), names.then_some("spin"), "{version}");
        assert_eq!(calls("cuFuncGetName"), u64::from(names));
        // Six spans and their places, two gaps of lanes where streams have numbers.
        let reads = [calls("cuEventElapsedTime"), calls("cuEventElapsedTime_v2")];
        let expected = if ids { 14 } else { 12 };
        let in_order = if elapsed_v2 { [0, expected] } else { [expected, 0] };
        assert_eq!(reads, in_order, "{version}");
        assert_eq!(calls("cuCtxGetId"), u64::from(ids));
        recorder.close();
        // Which context they are of is not known without its number.
        let destroyed = if ids { calls("cuEventCreate") } else { 0 };
        assert_eq!(calls("cuEventDestroy_v2"), destroyed, "{version}");
    }
}

#[test]
fn drivers_that_cannot_serve_say_why() {
    let _app = App::new();
    // Older than the oldest, by what it says and by what it lacks.
    control::set_driver_version(11_000);
    assert!(matches!(driver(), Err(DriverError::TooOld { found: 11_000, .. })));
    control::set_driver_version(13_000);
    control::hide_newer_than(9_010);
    let error = driver().unwrap_err();
    assert!(matches!(error, DriverError::MissingSymbol { .. }), "{error}");
    control::hide_newer_than(13_000);
    control::set_stub(true);
    let error = driver().unwrap_err();
    assert!(matches!(error, DriverError::Stub { .. }), "{error}");
    control::set_stub(false);
    assert!(driver().is_ok());
    // SAFETY: there is no such file.
    let none = unsafe { Driver::open(Path::new("/nonexistent/libcuda.so.1")) };
    assert!(matches!(none, Err(DriverError::NoLibrary { .. })), "{none:?}");
}

#[test]
fn a_machine_without_a_gpu_is_a_typed_error() {
    let _alone = metrale_gpu_sim::exclusive();
    control::set_device_count(0);
    assert_eq!(super::rig::cu!("cuInit", 0 => u32), Status::ERROR_NO_DEVICE);
    // SAFETY: the recorder is not made, so the context is never used.
    let made = unsafe {
        let driver = driver().unwrap();
        Recorder::from_raw(driver, super::rig::context(0x1000), super::rig::telemetry(), config())
    };
    assert!(matches!(made, Err(InstallError::Driver(DriverError::NoDevice { .. }))), "{made:?}");
    assert_eq!(calls("cuEventCreate") + calls("cuDevicePrimaryCtxRetain"), 0);
    assert_eq!(calls("cuInit"), 1, "the application's own");
}
