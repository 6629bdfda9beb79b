// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which labels series have, and since when.

use super::{full, telemetry};
use crate::export::{LabelError, MetraleCollector, text};
use crate::runtime::{KernelName, RecorderSource};
use crate::snapshot::RecorderSnapshot;
use std::sync::{Arc, Weak};

#[test]
fn labels_are_checked() {
    let collector = || MetraleCollector::new(telemetry());
    for name in ["", "1a", "a-b", "a:b", "ä", "__name__", "a b"] {
        let error = collector().label(name, "x").unwrap_err();
        assert_eq!(error, LabelError::Name(name.to_owned()));
    }
    for name in ["kernel", "lane", "le", "ring", "outcome"] {
        let error = collector().label(name, "x").unwrap_err();
        assert_eq!(error, LabelError::Taken(name.to_owned()));
    }
    let twice = collector().label("pod", "a").unwrap().label("pod", "b");
    assert_eq!(twice.unwrap_err(), LabelError::Twice("pod".to_owned()));
    let named = collector().label("gpu", "GPU-1").unwrap();
    assert!(text(&named).contains("metrale_steps_total{gpu=\"GPU-1\"} 0\n"));
    // An empty value is no label, and no GPU.
    let empty = collector().label("pod", "").unwrap();
    assert!(text(&empty.label("gpu", "a").unwrap()).contains("steps_total{gpu=\"a\"} 0\n"));
    let nameless = collector().label("gpu", "").unwrap();
    assert!(!text(&nameless).contains("steps_total"));
}

#[test]
fn labels_hold_any_character() {
    let all: String = (0..=0x17f).filter_map(char::from_u32).chain(['😀', '\u{2028}']).collect();
    let value = all.clone();
    let snapshot = move || {
        let mut snapshot = full();
        snapshot.labels.insert("pod".to_owned(), value.clone());
        snapshot.labels.insert("no label".to_owned(), "x".to_owned());
        snapshot.labels.insert("kernel".to_owned(), "x".to_owned());
        [snapshot]
    };
    let page = text(&MetraleCollector::from_fn(snapshot));
    let line = page.split('\n').find(|line| line.starts_with("metrale_steps_total")).unwrap();
    let clean = |c: char| if c.is_control() { '?' } else { c };
    let expected: String = all.chars().map(clean).collect();
    let escaped = expected.replace('\\', "\\\\").replace('"', "\\\"");
    assert_eq!(line, format!("metrale_steps_total{{gpu=\"unknown\",pod=\"{escaped}\"}} 0"));
}

/// A recorder of a GPU.
struct Recorder(&'static str);

impl RecorderSource for Recorder {
    fn recorder(&self) -> RecorderSnapshot {
        RecorderSnapshot { gpu: self.0.to_owned(), ..RecorderSnapshot::default() }
    }

    fn name(&self, _: u64) -> Option<KernelName> {
        None
    }
}

/// The series of a page, without their values.
fn series(page: &str) -> Vec<&str> {
    let lines = page.lines().filter(|line| line.starts_with("metrale_"));
    let series = lines.filter_map(|line| Some(line.rsplit_once(' ')?.0));
    series.filter(|series| !series.starts_with("metrale_export")).collect()
}

#[test]
fn series_begin_with_the_first_recorder_and_keep_their_labels() {
    for gpu in ["GPU-1", "unknown"] {
        let telemetry = telemetry();
        let collector = MetraleCollector::new(telemetry);
        telemetry.step_begin();
        let page = text(&collector);
        assert_eq!(series(&page).len(), 0, "{page}");
        assert!(page.contains("metrale_export_snapshots{state=\"no_gpu\"} 1\n"));

        let attach = |gpu| {
            let source: Arc<dyn RecorderSource> = Arc::new(Recorder(gpu));
            let weak: Weak<dyn RecorderSource> = Arc::downgrade(&source);
            (telemetry.attach(weak), source)
        };
        let (attached, first) = attach(gpu);
        attached.unwrap();
        let page = text(&collector);
        let label = format!("{{gpu=\"{gpu}\"");
        let mut all = series(&page).into_iter();
        assert!(all.all(|series| series.contains(&label)), "{page}");
        assert!(page.contains(&format!("metrale_steps_total{label}}} 1\n")));
        let (same, second) = attach(gpu);
        same.unwrap();
        let (other, _third) = attach("GPU-2");
        other.unwrap_err();
        telemetry.detach(&first);
        drop(first);
        assert_eq!(series(&text(&collector)), series(&page));
        telemetry.detach(&second);
        assert_eq!(series(&text(&collector)), series(&page));
    }
}
