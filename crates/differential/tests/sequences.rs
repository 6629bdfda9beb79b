// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random sequences beside the recorder, those that failed once, and what is
//! known to show.

use metrale_differential::guest::Maker;
use metrale_differential::sequence::{Action, Operation, Sequence, Setup, Timing};
use metrale_differential::{Bench, Difference, Look};
use std::path::{Path, PathBuf};

#[test]
fn no_sequence_shows_the_recorder() {
    let ran = Bench::new().try_seeds(0, 800, Maker::Recorder, Look::Everywhere, |_| ());
    let tally = ran.unwrap_or_else(|failure| {
        panic!("seed {}: {}\n{}", failure.seed, failure.difference, failure.sequence.to_data())
    });
    // They would show nothing if nothing happened in them.
    let good = |name: &str| tally.app.get(name).map_or(0, |(_, good)| *good);
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
        assert!(good(name) >= 5, "{name} succeeded {} times:\n{tally}", good(name));
    }
    for status in [400, 600, 700, 719, 900, 901, 904, 906, 907, 908] {
        let count = tally.statuses.get(&status).copied().unwrap_or(0);
        assert!(count >= 5, "{status}: {count}\n{tally}");
    }
    let anchors = tally.anchors;
    let about = [anchors.records, anchors.queries, anchors.reads];
    assert!(about.iter().all(|count| *count >= 100), "{tally}");
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
    assert!(tally.left.1 >= 10, "quarantined: {tally}");
    // Nearly every recorder that was asked for was there, whichever device it was of.
    let asked = tally.guest.get("install").map_or(0, |(entries, _)| *entries);
    assert!(asked > 0 && tally.left.0 * 10 >= asked * 9, "{tally}");
    assert!(tally.guest.values().all(|(entries, _)| *entries >= 100), "{tally}");
}

fn regressions() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let paths = files.map(|file| file.expect("it can be read").path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "json")).collect()
}

#[test]
fn what_differed_once_differs_no_more() {
    let bench = Bench::new();
    let all = regressions();
    assert!(!all.is_empty());
    for path in all {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let sequence = Sequence::from_data(&text).expect("it is a sequence");
        let (difference, _) = bench.compare(&sequence, Maker::Recorder, Look::Everywhere);
        let told = difference.map(|found| found.to_string());
        assert_eq!(told, None, "{}", path.display());
    }
}

#[test]
fn a_script_survives_its_data() {
    for path in regressions() {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let sequence = Sequence::from_data(&text).expect("it is a sequence");
        assert_eq!(sequence.to_data(), text, "{}", path.display());
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
            lazy: false,
            slots: 8,
            refuse_legacy: false,
            early: true,
        },
        operations: operations.to_vec(),
    };
    let bench = Bench::new();
    let (difference, _) =
        bench.compare(&sequence(Timing::Everything), Maker::Recorder, Look::Everywhere);
    let Some(Difference::Seen { bare: Some(bare), beside: Some(beside) }) = difference else {
        panic!("{difference:?}");
    };
    assert_eq!((bare.what, bare.status), ("cuStreamQuery", 0));
    assert_eq!((beside.what, beside.status), ("cuStreamQuery", 600));
    let (kept_apart, _) =
        bench.compare(&sequence(Timing::SpansApart), Maker::Recorder, Look::Everywhere);
    assert_eq!(kept_apart, None);
}
