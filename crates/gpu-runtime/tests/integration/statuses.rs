// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every status of the driver, and some of drivers to come, from every call
//! that the recorder makes.

use super::rig::{
    App, GLOBAL, all_calls, calls, config, fail_some, loaded, own_thread, stream, wait_for,
};
use metrale_gpu_runtime::timing::{DriverError, InstallError, Recorder, RecorderConfig, Status};
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::{LANE_DECODE, SpanToken};
use metrale_telemetry::{Floor, Step};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Meaning {
    Wait,
    BackOff,
    Drop,
    Quarantine,
}
pub(crate) use Meaning::{BackOff, Drop, Quarantine, Wait};

/// By the numbers of the driver's reference, not by the library's own table.
pub(crate) fn meaning(status: Status) -> Meaning {
    match status.0 {
        600 => Wait,
        2 | 201 | 800 | 900..=906 | 908 => BackOff,
        1 | 400 | 907 | 917 => Drop,
        _ => Quarantine,
    }
}

pub(crate) fn every_status() -> impl Iterator<Item = Status> {
    let future = [47, 227, 920, 1000, 65_535, u32::MAX].map(Status);
    let known = Status::KNOWN.iter().copied().filter(|s| !s.is_success());
    known.chain(future)
}

const ARMED: Step = Step::armed(0, 0);

struct Case {
    app: App,
    recorder: Recorder,
    status: Status,
}

impl Case {
    fn new(status: Status) -> Self {
        let app = App::new();
        let recorder = app.recorder();
        Self { app, recorder, status }
    }

    fn begin(&self, on: u64) -> Option<SpanToken> {
        self.recorder.begin_lane(ARMED, LANE_DECODE, stream(on))
    }

    fn lane(&self, on: u64) -> bool {
        let token = self.begin(on);
        if let Some(token) = token {
            self.recorder.end_lane(token, stream(on));
        }
        token.is_some()
    }

    /// Refused, failed and landed lanes.
    fn counts(&self) -> (u64, u64, u64) {
        let ledger = self.recorder.lane_ledger();
        assert!(ledger.closes(), "{}: {ledger:?}", self.status);
        (ledger.refused, ledger.failed, ledger.landed)
    }

    /// After the status was met: the application is as it was, and the
    /// recorder is silent or well again.
    fn check(&self, is_quarantined: bool) {
        let status = self.status;
        control::clear_faults();
        assert_eq!(self.app.thread_mode(), GLOBAL, "{status}");
        let app = &self.app;
        assert!(app.launch(app.spin, app.stream, 1).is_success(), "{status}");
        if is_quarantined {
            assert_eq!(self.recorder.health().quarantined, Some(status));
            let before = all_calls();
            for _ in 0..3 {
                assert!(!self.lane(app.stream));
                let launch = self.recorder.begin_launch(
                    ARMED,
                    LANE_DECODE,
                    loaded(app.other),
                    stream(app.stream),
                );
                assert_eq!(launch, None);
                assert_eq!(self.recorder.harvest(), 0);
            }
            assert_eq!(all_calls() - before, 1, "{status}: silent");
            assert_eq!(self.recorder.lane_ledger().in_flight, 0, "{status}");
        } else {
            assert_eq!(self.recorder.health().quarantined, None, "{status}");
            let landed = self.counts().2;
            let in_flight = self.recorder.lane_ledger().in_flight;
            assert!(self.lane(app.stream), "{status}: healed");
            control::advance_ns(1_000);
            self.recorder.harvest();
            self.recorder.harvest();
            assert_eq!(self.counts().2, landed + in_flight + 1, "{status}: healed");
        }
    }
}

#[test]
fn records_and_their_questions() {
    for status in every_status() {
        let is_quarantined = meaning(status) == Quarantine;
        // The anchor cannot be recorded: only the step's places are lost.
        let case = Case::new(status);
        fail_some("cuEventRecord", status, 0, 1);
        assert_eq!(case.lane(case.app.stream), !is_quarantined);
        assert_eq!(case.counts(), (0, u64::from(is_quarantined), 0), "{status}");
        case.check(is_quarantined);
        drop(case);
        // The start cannot be recorded, the end cannot.
        for skip in [1, 2] {
            let case = Case::new(status);
            fail_some("cuEventRecord", status, skip, 1);
            assert_eq!(case.lane(case.app.stream), skip == 2);
            assert_eq!(case.counts(), (0, 1, 0), "{status} {skip}");
            case.check(is_quarantined);
        }
        // Nobody knows which stream it is: the gap before the lane is unknown, and
        // every one from there on.
        for (call, skip) in [("cuStreamGetId", 0), ("cuThreadExchangeStreamCaptureMode", 0)] {
            let case = Case::new(status);
            fail_some(call, status, skip, 1);
            assert_eq!(case.lane(case.app.stream), !is_quarantined);
            assert_eq!(case.counts(), (0, u64::from(is_quarantined), 0), "{status}");
            case.check(is_quarantined);
        }
        // Nobody knows whether the stream captures.
        for skip in [0, 1] {
            let case = Case::new(status);
            fail_some("cuStreamIsCapturing", status, skip, 1);
            assert_eq!(case.lane(case.app.stream), skip == 1);
            assert_eq!(case.counts(), (1 - skip, skip, 0), "{status} {skip}");
            case.check(is_quarantined);
        }
        // Nor which context a default stream belongs to.
        let case = Case::new(status);
        fail_some("cuCtxGetCurrent", status, 0, 1);
        assert!(!case.lane(2));
        assert_eq!(case.counts(), (1, 0, 0), "{status}");
        case.check(is_quarantined);
    }
}

#[test]
fn polls() {
    for status in every_status() {
        for call in ["cuEventQuery", "cuEventElapsedTime_v2"] {
            let case = Case::new(status);
            assert!(case.lane(case.app.stream));
            fail_some(call, status, 0, 1);
            assert_eq!(case.recorder.harvest(), 0);
            let kept = matches!(meaning(status), Wait | BackOff);
            let ledger = case.recorder.lane_ledger();
            assert_eq!(ledger.in_flight, u64::from(kept), "{status} {call}");
            assert_eq!(ledger.failed, u64::from(!kept), "{status} {call}");
            let refused = u64::from(meaning(status) == BackOff);
            assert_eq!(case.recorder.health().polls_refused, refused);
            case.check(meaning(status) == Quarantine);
        }
        // What an anchor answers costs the place only, or the span waits.
        for (call, skip) in [("cuEventQuery", 1), ("cuEventElapsedTime_v2", 1)] {
            let case = Case::new(status);
            assert!(case.lane(case.app.stream));
            fail_some(call, status, skip, 1);
            let waits = matches!(meaning(status), Wait | BackOff);
            let landed = case.recorder.harvest();
            assert_eq!(landed, usize::from(!waits), "{status} {call}");
            assert_eq!(case.counts(), (0, 0, u64::from(!waits)), "{status} {call}");
            case.check(meaning(status) == Quarantine);
        }
        // The read of a gap costs the gap only.
        let case = Case::new(status);
        assert!(case.lane(case.app.stream) && case.lane(case.app.stream));
        fail_some("cuEventElapsedTime_v2", status, 4, 1);
        let landed = case.recorder.harvest();
        assert_eq!(landed, 2, "{status}: both were read before");
        case.check(meaning(status) == Quarantine);
    }
}

#[test]
fn mode_exchanges() {
    for status in every_status() {
        // Into the relaxed mode: nothing is polled.
        let case = Case::new(status);
        assert!(case.lane(case.app.stream));
        fail_some("cuThreadExchangeStreamCaptureMode", status, 0, 1);
        assert_eq!(case.recorder.harvest(), 0);
        assert_eq!(calls("cuEventQuery"), 0);
        let is_quarantined = meaning(status) == Quarantine;
        if is_quarantined {
            case.recorder.harvest();
        }
        case.check(is_quarantined);
        drop(case);

        // Back: tried again.
        let case = Case::new(status);
        assert!(case.lane(case.app.stream));
        fail_some("cuThreadExchangeStreamCaptureMode", status, 1, 1);
        assert_eq!(case.recorder.harvest(), 1);
        case.check(false);
        drop(case);

        // Back, in vain: never again.
        let case = Case::new(status);
        assert!(case.lane(case.app.stream));
        fail_some("cuThreadExchangeStreamCaptureMode", status, 1, 2);
        assert_eq!(case.recorder.harvest(), 1);
        control::clear_faults();
        case.app.set_thread_mode(GLOBAL);
        case.check(true);
    }
}

#[test]
fn names_of_functions() {
    for status in every_status() {
        let case = Case::new(status);
        let launch = || {
            let on = stream(case.app.stream);
            let token = case.recorder.begin_launch(ARMED, LANE_DECODE, loaded(case.app.spin), on);
            if let Some(token) = token {
                case.recorder.end_launch(token, on);
            }
            token.is_some()
        };
        let asked = || calls("cuFuncGetName");
        fail_some("cuFuncGetName", status, 0, 1);
        // A function that has no name is no trouble.
        let nameless = matches!(status.0, 500 | 801 | 913);
        let is_quarantined = meaning(status) == Quarantine && !nameless;
        assert_eq!(launch(), !is_quarantined, "{status}");
        assert_eq!(case.app.thread_mode(), GLOBAL);
        control::clear_faults();
        launch();
        // Asked again only where the answer was no answer.
        let again = !is_quarantined && matches!(meaning(status), Wait | BackOff);
        assert_eq!(asked(), 1 + u64::from(again), "{status}");
        case.recorder.harvest();
        for row in case.recorder.kernels() {
            assert_eq!(row.name.as_deref(), again.then_some("spin"), "{status}");
        }
        case.check(is_quarantined);
    }
}

#[test]
fn installation_and_close() {
    for status in every_status() {
        let made = |call: &str| {
            let app = App::new();
            fail_some(call, status, 0, 1);
            let made = app.try_recorder(config());
            control::clear_faults();
            assert_eq!(app.thread_mode(), GLOBAL);
            assert!(app.launch(app.spin, app.stream, 1).is_success());
            (made, app)
        };
        let (recorder, _app) = made("cuDeviceGetCount");
        assert!(
            matches!(recorder, Err(InstallError::Driver(DriverError::NoDevice { status: s, .. })) if s == status),
            "{recorder:?}"
        );
        drop(_app);
        let (recorder, _app) = made("cuCtxPushCurrent_v2");
        assert!(
            matches!(recorder, Err(InstallError::Context { status: s }) if s == status),
            "{recorder:?}"
        );
        drop(_app);
        let (recorder, _app) = made("cuEventCreate");
        assert!(
            matches!(recorder, Err(InstallError::Events { made: 0, status: s, .. }) if s == status),
            "{recorder:?}"
        );
        drop(_app);
        // What says nothing about the recorder does not stop it.
        for call in [
            "cuCtxGetDevice",
            "cuDeviceGetUuid",
            "cuDeviceGetUuid_v2",
            "cuDeviceGetName",
            "cuCtxGetId",
            "cuCtxPopCurrent_v2",
        ] {
            let (recorder, _app) = made(call);
            recorder.unwrap().close();
        }
        let app = App::new();
        let recorder = app.recorder();
        fail_some("cuEventDestroy_v2", status, 3, 1);
        recorder.close();
        let tried = match meaning(status) {
            Quarantine => 4,
            _ => calls("cuEventCreate"),
        };
        assert_eq!(calls("cuEventDestroy_v2"), tried, "{status}");
    }
}

/// Whatever call of it fails, a recorder is made, and only what stops any
/// recorder stops this one: the application's next call sees its own error.
#[test]
fn measuring_the_floor() {
    for status in every_status() {
        let is_wait = meaning(status) == Wait;
        // The first calls, those of the second pair's end, those of the pass.
        for (call, skip, is_known) in [
            ("cuThreadExchangeStreamCaptureMode", 0, false),
            ("cuThreadExchangeStreamCaptureMode", 1, false),
            ("cuStreamCreate", 0, false),
            ("cuStreamIsCapturing", 0, false),
            ("cuStreamIsCapturing", 3, false),
            ("cuEventRecord", 0, false),
            ("cuEventRecord", 3, false),
            ("cuEventQuery", 1, is_wait),
            ("cuEventElapsedTime_v2", 1, is_wait),
            ("cuEventQuery", 32, is_wait),
            ("cuEventElapsedTime_v2", 32, is_wait),
            ("cuStreamDestroy_v2", 0, false),
        ] {
            let app = App::new();
            let before = calls("cuStreamCreate");
            fail_some(call, status, skip, 1);
            let config = RecorderConfig { measure_floor: true, ..config() };
            let recorder = app.try_recorder(config).unwrap();
            control::clear_faults();
            let met = format!("{status} {call} {skip}");
            let floor = recorder.telemetry().floor();
            assert_eq!(floor != Floor::default(), is_known, "{met}");
            let quarantined = (meaning(status) == Quarantine).then_some(status);
            assert_eq!(recorder.health().quarantined, quarantined, "{met}");
            assert_eq!(recorder.health().polls_refused, 0, "{met}");
            // Nothing is asked of a pair that was not recorded, and nothing is
            // recorded after a question that failed.
            match (call, skip) {
                ("cuEventRecord", skip) => assert_eq!(calls("cuEventQuery"), skip / 2, "{met}"),
                ("cuEventQuery", 1) if !is_wait => assert_eq!(calls("cuEventRecord"), 4, "{met}"),
                _ => {}
            }
            // The stream is taken back, but where no call may be made.
            let made = u64::from(calls("cuStreamCreate") > before && call != "cuStreamCreate");
            let is_stopped = quarantined.is_some() && call != "cuStreamDestroy_v2";
            let destroyed = if is_stopped { 0 } else { made };
            assert_eq!(calls("cuStreamDestroy_v2"), destroyed, "{met}");
            let case = Case { app, recorder, status };
            case.check(quarantined.is_some());
        }
    }
}

/// The recorder's own thread enters the context once.
#[test]
fn entering_the_context_on_the_own_thread() {
    for status in every_status() {
        let app = App::new();
        fail_some("cuCtxPushCurrent_v2", status, 1, 1);
        let recorder = app.try_recorder(own_thread()).unwrap();
        wait_for(|| calls("cuCtxPushCurrent_v2") >= 2 && recorder.lane_ledger().passes > 0);
        let quarantined = (meaning(status) == Quarantine).then_some(status);
        assert_eq!(recorder.health().quarantined, quarantined);
    }
}

/// The error is the context's: the application finds it where it would have
/// without a recorder, and closing a quarantined recorder asks nothing.
#[test]
fn a_fatal_error_stays_the_applications() {
    for status in every_status().filter(|status| meaning(*status) == Quarantine) {
        let case = Case::new(status);
        let app = &case.app;
        assert!(case.lane(app.stream));
        let open = case.begin(app.stream).unwrap();
        control::set_sticky(0, status);
        assert_eq!(app.launch(app.spin, app.stream, 1), status, "first and unchanged");
        case.recorder.end_lane(open, stream(app.stream));
        case.recorder.harvest();
        assert_eq!(case.recorder.health().quarantined, Some(status));
        assert_eq!(app.launch(app.spin, app.stream, 1), status, "and still");
        assert_eq!(case.recorder.lane_ledger().in_flight, 0);
        assert_eq!(app.thread_mode(), GLOBAL);
        let before = all_calls();
        case.recorder.close();
        assert_eq!(all_calls() - before, 1);
    }
}
