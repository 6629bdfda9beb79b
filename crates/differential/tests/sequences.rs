// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random sequences beside the recorder, those that failed once, and what is
//! known to show.

use metrale_differential::guest::Mistake;
use metrale_differential::sequence::{Action, Operation, Sequence, Setup, Timing};
use metrale_differential::{Bench, Difference, Look};
use std::path::Path;

#[test]
fn no_sequence_shows_the_recorder() {
    let ran = Bench::default().try_sequences(0, 800, Mistake::None, Look::Everywhere);
    let tally = ran.unwrap_or_else(|failure| panic!("{failure}"));
    // They would show nothing if nothing happened in them.
    for name in [
        "cuStreamEndCapture",
        "cuGraphLaunch",
        "cuLaunchKernel",
        "cuLaunchKernel_ptsz",
        "cuEventElapsedTime",
        "cuEventRecordWithFlags",
        "cuStreamWaitEvent",
        "cuStreamDestroy_v2",
        "cuMemcpyDtoH_v2",
        "cuMemcpyDtoDAsync_v2",
        "cuModuleUnload",
        "cuCtxDestroy_v2",
    ] {
        assert!(tally.of("succeeded", name) >= 5, "{name}:\n{tally}");
    }
    for status in ["400", "600", "700", "719", "900", "901", "904", "906", "907", "908"] {
        assert!(tally.of("status", status) >= 5, "{status}:\n{tally}");
    }
    assert!(tally.all("of anchors").all(|count| count >= 100), "{tally}");
    let spans = tally.ledger;
    let fates = [
        spans.landed,
        spans.dropped,
        spans.refused,
        spans.failed,
        spans.cancelled,
        spans.reclaimed,
    ];
    assert!(fates.iter().all(|count| *count >= 50), "{tally}");
    let (sound, quarantined) = (tally.of("guests", "sound"), tally.of("guests", "quarantined"));
    assert!(quarantined >= 10, "{tally}");
    // Nearly every recorder that was asked for was there, whichever device it was of.
    assert!((sound + quarantined) * 10 >= tally.of("entered", "Install") * 9, "{tally}");
    assert_eq!(tally.all("entered").count(), 9, "{tally}");
    assert!(tally.all("entered").all(|count| count >= 100), "{tally}");
}

/// What was found once: beside the recorder, or beside one with a mistake.
#[test]
fn what_differed_once_differs_no_more() {
    let bench = Bench::default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    for file in std::fs::read_dir(folder).expect("the folder is there") {
        let path = file.expect("it can be read").path();
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let sequence: Sequence = serde_json::from_str(&text).expect("it is a sequence");
        assert_eq!(format!("{sequence}\n"), text, "it is laid out as it is printed");
        let (difference, _) = bench.compare(&sequence, Mistake::None, Look::Everywhere);
        assert_eq!(difference, None, "{}", path.display());
    }
}

/// A record on the legacy stream waits for the blocking streams, and they for
/// it, as any work would: a lane on the legacy stream that ends while another
/// stream works holds up what comes after. That is the driver's rule, and why
/// [`Timing`] keeps the two apart.
#[test]
fn a_record_on_the_legacy_stream_is_a_barrier_and_shows() {
    // After the first stream and the two that are made here.
    let legacy = 3;
    let (blocking, bare) = (12, 0);
    let operations = [
        Operation::new(Action::StreamCreate, [blocking, 0, 0, 0], 0),
        Operation::new(Action::StreamCreate, [blocking, 0, 0, 0], 0),
        Operation::new(Action::Launch, [0, 1, bare, 0], 1_000),
        Operation::new(Action::BeginLane, [0, 0, legacy, 0], 0),
        Operation::new(Action::Launch, [0, 2, bare, 0], 10),
        Operation::new(Action::Advance, [0; 4], 500),
        Operation::new(Action::StreamQuery, [2, 0, 0, 0], 0),
    ];
    let sequence = |timing| Sequence {
        setup: Setup {
            timing,
            threads: 1,
            driver: 13_000,
            slots: 8,
            early: true,
            ..Setup::default()
        },
        operations: operations.to_vec(),
    };
    let bench = Bench::default();
    let (difference, _) =
        bench.compare(&sequence(Timing::Everything), Mistake::None, Look::Everywhere);
    let Some(Difference::Seen { bare: Some(bare), beside: Some(beside) }) = difference else {
        panic!("{difference:?}");
    };
    assert_eq!((bare.what, bare.status), ("cuStreamQuery", 0));
    assert_eq!((beside.what, beside.status), ("cuStreamQuery", 600));
    let (kept_apart, _) =
        bench.compare(&sequence(Timing::SpansApart), Mistake::None, Look::Everywhere);
    assert_eq!(kept_apart, None);
}
