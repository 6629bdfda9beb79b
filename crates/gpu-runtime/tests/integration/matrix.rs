// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every way in which a capture and a span can meet: mode of the capture, mode
//! of the recorder's caller, same or other thread, begin, end or harvest,
//! lane, launch or graph, on the capturing stream or beside it.

use super::rig::{App, GLOBAL, RELAXED, THREAD_LOCAL, func, stream};
use metrale_gpu_runtime::timing::{Recorder, Status};
use metrale_gpu_sim::control;
use metrale_telemetry::Step;
use metrale_telemetry::kernel::{LANE_DECODE, Ledger, SpanToken};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Lane,
    Launch,
    Graph,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operation {
    Begin,
    End,
    Harvest,
}

const ARMED: Step = Step::armed(0, 0);

struct Span<'a> {
    app: &'a App,
    recorder: &'a Recorder,
    kind: Kind,
    on: u64,
}

impl Span<'_> {
    fn begin(&self) -> Option<SpanToken> {
        let here = stream(self.on);
        let recorder = self.recorder;
        match self.kind {
            Kind::Lane => recorder.begin_lane(ARMED, LANE_DECODE, here),
            Kind::Launch => recorder.begin_launch(ARMED, LANE_DECODE, func(self.app.spin), here),
            Kind::Graph => {
                let graph = recorder.graph("decode");
                recorder.begin_launch(ARMED, LANE_DECODE, graph, here)
            }
        }
    }

    fn end(&self, token: Option<SpanToken>) {
        let Some(token) = token else { return };
        match self.kind {
            Kind::Lane => self.recorder.end_lane(token, stream(self.on)),
            Kind::Launch | Kind::Graph => self.recorder.end_launch(token, stream(self.on)),
        }
    }

    fn ledger(&self) -> Ledger {
        match self.kind {
            Kind::Lane => self.recorder.lane_ledger(),
            Kind::Launch | Kind::Graph => self.recorder.kernel_ledger(),
        }
    }
}

/// Runs `act` on this thread or another one, which is in the given mode and
/// must be so after it.
fn on_thread<T: Send>(app: &App, other: bool, mode: u32, act: impl FnOnce() -> T + Send) -> T {
    let act = || {
        let before = app.set_thread_mode(mode);
        let value = act();
        assert_eq!(app.set_thread_mode(before), mode, "the thread's own mode");
        value
    };
    if other { std::thread::scope(|scope| scope.spawn(act).join().unwrap()) } else { act() }
}

fn meet(capture: u32, caller: u32, other: bool, operation: Operation, kind: Kind, inside: bool) {
    let case = format!(
        "{capture} {caller} other={other} {operation:?} {kind:?} capturing stream={inside}"
    );
    let app = App::new();
    let recorder = app.recorder();
    let capturing = app.new_stream();
    let span = Span {
        app: &app,
        recorder: &recorder,
        kind,
        on: if inside { capturing } else { app.stream },
    };

    // Before the capture: what the operation needs.
    let open = (operation != Operation::Begin).then(|| span.begin().expect("nothing captures"));
    if operation == Operation::Harvest {
        span.end(open);
    }
    app.begin_capture(capturing, capture);
    assert!(app.launch(app.spin, capturing, 1_000).is_success());
    control::log_start();

    let begun = on_thread(&app, other, caller, || match operation {
        Operation::Begin => {
            let token = span.begin();
            span.end(token);
            token.is_some()
        }
        Operation::End => {
            span.end(open);
            true
        }
        Operation::Harvest => {
            assert_eq!(recorder.harvest(), 1, "{case}");
            true
        }
    });

    assert_eq!(app.capture_status(capturing), 1, "still active: {case}");
    assert!(app.launch(app.spin, capturing, 1_000).is_success());
    assert_eq!(app.end_capture(capturing), Status::SUCCESS, "{case}");
    recorder.harvest();

    let ledger = span.ledger();
    assert!(ledger.closes() && ledger.in_flight == 0, "{case}: {ledger:?}");
    let lost = inside && operation != Operation::Harvest;
    assert_eq!(ledger.landed, u64::from(!lost), "{case}: {ledger:?}");
    match operation {
        Operation::Begin => {
            assert_eq!(begun, !inside, "{case}");
            assert_eq!(ledger.refused, u64::from(inside), "{case}");
        }
        Operation::End => assert_eq!(ledger.failed, u64::from(inside), "{case}"),
        Operation::Harvest => {}
    }
    for call in control::log() {
        assert_eq!(call.status, Status::SUCCESS, "{case}: {call:?}");
        let polls =
            call.name.starts_with("cuEventQuery") || call.name.starts_with("cuEventElapsed");
        assert!(!polls || call.mode == RELAXED, "{case}: {call:?}");
    }
    assert_eq!(recorder.health().quarantined, None, "{case}");
}

#[test]
fn a_capture_survives_every_meeting_with_a_span() {
    let mut cases = 0;
    for capture in [GLOBAL, THREAD_LOCAL, RELAXED] {
        for caller in [GLOBAL, THREAD_LOCAL, RELAXED] {
            for other in [false, true] {
                for operation in [Operation::Begin, Operation::End, Operation::Harvest] {
                    for kind in [Kind::Lane, Kind::Launch, Kind::Graph] {
                        for inside in [false, true] {
                            meet(capture, caller, other, operation, kind, inside);
                            cases += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(cases, 3 * 3 * 2 * 3 * 3 * 2);
}

/// The name of a function is asked for beside a capture of any thread, and not
/// on its stream.
#[test]
fn asking_for_a_name_harms_no_capture() {
    for (inside, calls) in [(false, 1), (true, 0)] {
        let app = App::new();
        let recorder = app.recorder();
        let capturing = app.new_stream();
        app.begin_capture(capturing, GLOBAL);
        let on = stream(if inside { capturing } else { app.stream });
        control::log_start();
        let launch = || recorder.begin_launch(ARMED, LANE_DECODE, super::rig::loaded(app.spin), on);
        let token = on_thread(&app, true, GLOBAL, launch);
        assert_eq!(token.is_some(), !inside);
        let asked = control::log();
        let asked: Vec<_> = asked.iter().filter(|call| call.name == "cuFuncGetName").collect();
        assert_eq!(asked.len(), calls);
        assert!(asked.iter().all(|call| call.mode == RELAXED), "{asked:?}");
        assert_eq!(recorder.kernel_ledger().refused, u64::from(inside));
        assert_eq!(app.end_capture(capturing), Status::SUCCESS);
    }
}
