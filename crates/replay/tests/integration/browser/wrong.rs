// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the page says where something is wrong, and that it takes any name as
//! text. The recorders are the test's.

use super::{browser, wait_for};
use metrale_http::{Pages, Server};
use metrale_telemetry::kernel::{LANE_DECODE, SpanKey};
use metrale_telemetry::runtime::{KernelName, RecorderSource};
use metrale_telemetry::snapshot::{OldestSpanSnapshot, RecorderSnapshot, RowKind};
use metrale_telemetry::{Level, Telemetry};
use std::sync::{Arc, Weak};

/// A name that is text, and nothing else.
const NAME: &str = "<img src=x onerror=alert(1)>\u{202e}\"'`${1}";

struct Recorder {
    gpu: &'static str,
    quarantined: Option<u32>,
}

impl RecorderSource for Recorder {
    fn recorder(&self) -> RecorderSnapshot {
        let mut recorder = RecorderSnapshot::default();
        recorder.label = "7".to_owned();
        recorder.gpu = self.gpu.to_owned();
        recorder.health.quarantined = self.quarantined;
        recorder.lane_ledger.attempts = 9;
        recorder.lane_ledger.begun = 6;
        recorder.lane_ledger.landed = 6;
        recorder.lane_ledger.dropped = 3;
        let mut span = OldestSpanSnapshot::default();
        span.ring = "kernels".to_owned();
        span.name = Some(NAME.to_owned());
        span.stream = Some(0x2a);
        span.age_ns = Some(90_000_000_000);
        recorder.oldest = vec![span];
        recorder
    }

    fn name(&self, _: u64) -> Option<KernelName> {
        Some(KernelName { text: NAME.into(), kind: RowKind::Kernel })
    }
}

#[test]
fn it_says_what_is_wrong_and_takes_names_as_text() {
    let Some(mut browser) = browser() else { return };
    let gpus = [("GPU-well", None), ("GPU-ill", Some(700))];
    let sources = gpus.map(|(gpu, quarantined)| -> Arc<dyn RecorderSource> {
        Arc::new(Recorder { gpu, quarantined })
    });
    let telemetry = [(); 2].map(|()| -> &'static Telemetry { Telemetry::new().leak() });
    for (telemetry, source) in telemetry.iter().zip(&sources) {
        telemetry.attach(Weak::clone(&Arc::downgrade(source))).expect("one GPU each");
        telemetry.instruments().record(SpanKey::Lane(LANE_DECODE), 9_000_000);
        telemetry.instruments().record(SpanKey::Kernel(0xf00d), 70_000);
        telemetry.step_begin();
    }
    let server = Server::bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let address = server.address().expect("an address");
    server.start(Pages::new(telemetry).router()).expect("a thread");
    browser.open(&format!("http://{address}/"));
    browser.wait("document.body.dataset.state === 'live'");

    let alarms = "document.getElementById('alarms').innerText";
    let said = browser.text(alarms);
    for part in [
        "Quarantined: recorder 7 of GPU-ill measures nothing since the driver answered 700 (illegal address)",
        "has been on 0x2a for 90 s: recorder 7 of GPU-well",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("recorder 7 of GPU-well measures nothing"), "{said}");
    let verdict = browser.text("document.getElementById('verdict').innerText");
    assert!(
        verdict.contains("6 spans dropped") && !verdict.contains("Nothing was lost"),
        "{verdict}"
    );
    let rows = browser.text("document.querySelector('#rows-table tbody').textContent");
    assert!(rows.contains("<img src=x onerror=alert(1)>"), "{rows}");
    let elements = browser.eval("document.querySelectorAll('img').length");
    assert_eq!(elements, 0);
    let gpus = browser.text("document.getElementById('gpu-choice').innerText");
    assert!(gpus.contains("GPU-well") && gpus.contains("GPU-ill"), "{gpus}");

    for (level, part) in [(Level::Off, "The level is off"), (Level::Basic, "The level is basic")] {
        telemetry.iter().for_each(|telemetry| telemetry.set_level(level));
        wait_for(part, || browser.text(alarms).contains(part));
    }
    telemetry.iter().for_each(|telemetry| telemetry.set_level(Level::Kernel));
    wait_for("no step", || browser.text(alarms).contains("No step has begun for "));
    assert_eq!(browser.complaints(), [] as [&str; 0]);
}
