// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several GPUs in one process: a recorder each, and no event of one on a
//! stream of another.

use super::rig::{App, GLOBAL, all_calls, calls, config, cu, driver, fail_some, func, telemetry};
use metrale_gpu_runtime::timing::{InstallError, Recorder, RecorderConfig, Status, StreamRef};
use metrale_gpu_sim::control;
use metrale_telemetry::Step;
use metrale_telemetry::kernel::LANE_DECODE;

pub(crate) struct Gpu {
    pub(crate) context: u64,
    stream: u64,
    pub(crate) recorder: Recorder,
}

impl Gpu {
    fn new(context: u64, stream: u64, label: &str) -> Self {
        let config = RecorderConfig { label: label.to_owned(), ..config() };
        // SAFETY: the context lives as long as the test.
        let recorder = unsafe {
            Recorder::from_raw(driver(), super::rig::context(context), telemetry(), config)
        };
        Self { context, stream, recorder: recorder.unwrap() }
    }

    fn known(&self) -> StreamRef<'static> {
        // SAFETY: the stream lives as long as the test, and is of the context.
        unsafe { StreamRef::from_raw_of(self.stream, super::rig::context(self.context)) }
    }

    fn raw(&self) -> StreamRef<'static> {
        super::rig::stream(self.stream)
    }
}

/// Two GPUs; the first one's context is current.
pub(crate) fn two() -> (App, Gpu, Gpu) {
    let app = App::with_devices(2);
    let mut context = 0u64;
    let retained = cu!("cuDevicePrimaryCtxRetain", &raw mut context => *mut u64, 1 => i32);
    assert!(retained.is_success());
    assert!(cu!("cuCtxPushCurrent_v2", context => u64).is_success());
    let stream = app.new_stream();
    let mut popped = 0u64;
    assert!(cu!("cuCtxPopCurrent_v2", &raw mut popped => *mut u64).is_success());
    // Both are made while the first context is current.
    let first = Gpu::new(app.context, app.stream, "0");
    let second = Gpu::new(context, stream, "1");
    (app, first, second)
}

pub(crate) const STEP: Step = Step::numbered(0);

#[test]
fn each_gpu_has_its_recorder() {
    let (app, first, second) = two();
    assert_eq!((first.recorder.label(), second.recorder.label()), ("0", "1"));
    // One thread serves both, whatever context is current.
    for current in [first.context, second.context, 0] {
        assert!(cu!("cuCtxSetCurrent", current => u64).is_success());
        control::log_clear();
        control::log_start();
        for gpu in [&first, &second] {
            for stream in [gpu.known(), gpu.raw()] {
                drop(gpu.recorder.step().lane(LANE_DECODE, stream));
            }
        }
        for gpu in [&first, &second] {
            assert_eq!(gpu.recorder.harvest(), 2);
        }
        let log = control::log();
        assert!(log.iter().all(|call| call.status.is_success()), "{log:?}");
    }
    for gpu in [&first, &second] {
        let ledger = gpu.recorder.lane_ledger();
        assert_eq!((ledger.attempts, ledger.landed), (6, 6));
        let lanes = &gpu.recorder.telemetry().instruments().lane;
        assert_eq!(lanes[LANE_DECODE].count(), 6, "telemetry of its own");
    }
    drop(app);
}

#[test]
fn a_stream_of_another_gpu_is_refused_without_a_call() {
    let (_app, first, second) = two();
    let before = all_calls();
    let begun = first.recorder.begin_lane(STEP, LANE_DECODE, second.known());
    assert_eq!(begun, None);
    let armed = Step::armed(0, 0);
    let begun = first.recorder.begin_launch(armed, LANE_DECODE, func(7), second.known());
    assert_eq!(begun, None);
    assert_eq!(all_calls() - before, 1, "known without asking");
    assert_eq!(first.recorder.lane_ledger().refused, 1);
    assert_eq!(first.recorder.kernel_ledger().refused, 1);

    // An end there costs the span.
    let open = first.recorder.begin_lane(STEP, LANE_DECODE, first.known());
    let before = all_calls();
    first.recorder.end_lane(open.unwrap(), second.known());
    assert_eq!(all_calls() - before, 1);
    let ledger = first.recorder.lane_ledger();
    assert_eq!((ledger.begun, ledger.failed, ledger.in_flight), (1, 1, 0));
}

/// Of a raw stream only the driver knows the context. It refuses the record,
/// and nothing is timed wrongly.
#[test]
fn a_raw_stream_of_another_gpu_is_refused_by_the_driver() {
    let (app, first, second) = two();
    app.begin_capture(first.stream, GLOBAL);
    drop(first.recorder.step().lane(LANE_DECODE, second.raw()));
    assert_eq!(app.end_capture(first.stream), Status::SUCCESS);
    let ledger = first.recorder.lane_ledger();
    assert_eq!((ledger.begun, ledger.failed, ledger.in_flight), (1, 1, 0));
    assert_eq!(first.recorder.health().quarantined, None);
    drop(second.recorder.step().lane(LANE_DECODE, second.raw()));
    assert_eq!(second.recorder.harvest(), 1);
}

#[test]
fn trouble_on_one_gpu_is_not_the_others() {
    let (_app, first, second) = two();
    for gpu in [&first, &second] {
        drop(gpu.recorder.step().lane(LANE_DECODE, gpu.known()));
    }
    control::set_sticky(first.context, Status::ERROR_ILLEGAL_ADDRESS);
    fail_some("cuStreamIsCapturing", Status::ERROR_NOT_PERMITTED, 0, 1);
    assert_eq!((first.recorder.harvest(), second.recorder.harvest()), (0, 1));
    assert!(first.recorder.health().quarantined.is_some());
    assert_eq!(second.recorder.health().quarantined, None);
    first.recorder.close();
    second.recorder.close();
}

#[test]
fn a_telemetry_refuses_a_recorder_of_another_gpu_and_nothing_is_made() {
    let (_app, first, second) = two();
    let telemetry = first.recorder.telemetry();
    let floor = telemetry.floor();
    let make = |context, gpu: Option<&str>| {
        let config = RecorderConfig { gpu: gpu.map(str::to_owned), ..config() };
        // SAFETY: the contexts live as long as the test.
        unsafe { Recorder::from_raw(driver(), super::rig::context(context), telemetry, config) }
    };
    let before = calls("cuEventCreate");
    let Err(InstallError::OtherGpu(refused)) = make(second.context, None) else {
        panic!("not refused");
    };
    assert_eq!(refused.ours, first.recorder.gpu());
    assert_eq!(refused.theirs, second.recorder.gpu());
    assert_eq!(calls("cuEventCreate"), before);
    let unknown = make(first.context, Some("unknown"));
    assert!(matches!(unknown, Err(InstallError::OtherGpu(_))));
    assert_eq!(telemetry.floor(), floor);
    let snapshot = telemetry.snapshot();
    assert_eq!(snapshot.recorders.len(), 1);
    assert_eq!(snapshot.labels["gpu"], first.recorder.gpu());
    // Another of the same GPU is welcome.
    make(first.context, None).unwrap().close();
    assert_eq!(telemetry.snapshot().labels, snapshot.labels);
}

/// The simulator's UUIDs are its name and the device's number.
#[test]
fn each_gpu_is_known_by_its_uuid() {
    let (_app, first, second) = two();
    let gpus = [&first, &second].map(|gpu| gpu.recorder.gpu());
    assert_eq!(
        gpus,
        ["GPU-6d657472-616c-652d-7369-6d2d00000000", "GPU-6d657472-616c-652d-7369-6d2d00000001"]
    );
    assert_eq!(first.recorder.gpu_name(), Some("metrale simulated GPU"));
}

#[test]
fn an_instance_has_a_name_of_its_own_where_the_driver_tells_it() {
    const WHOLE: &str = "GPU-6d657472-616c-652d-7369-6d2d00000000";
    const INSTANCE: &str = "MIG-6d657472-616c-652d-6d69-672d00000000";
    const EITHER: &str = "GPU-6d657472-616c-652d-6d69-672d00000000";
    let unsupported = Status::ERROR_NOT_SUPPORTED;
    let app = App::new();
    control::set_mig(true);
    assert_eq!(app.recorder().gpu(), INSTANCE);
    control::hide_symbol("cuDeviceGetUuid_v2").unwrap();
    assert_eq!(app.recorder().gpu(), WHOLE);
    control::hide_newer_than(13_000);
    for (call, gpu) in [
        ("cuDeviceGetUuid_v2", WHOLE),
        ("cuDeviceGetUuid", EITHER),
        ("cuDeviceGetName", INSTANCE),
        ("cuCtxGetDevice", "unknown"),
    ] {
        fail_some(call, unsupported, 0, 1);
        let recorder = app.recorder();
        assert_eq!(recorder.gpu(), gpu, "{call}");
        let is_named = call.contains("Uuid");
        assert_eq!(recorder.gpu_name().is_some(), is_named, "{call}");
    }
    for call in ["cuDeviceGetUuid", "cuDeviceGetUuid_v2"] {
        fail_some(call, unsupported, 0, 1);
    }
    assert_eq!(app.recorder().gpu(), "unknown");
    let given = RecorderConfig { gpu: Some("rack 3, left".to_owned()), ..config() };
    assert_eq!(app.try_recorder(given).unwrap().gpu(), "rack 3, left");
}
