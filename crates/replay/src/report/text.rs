// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result for people.
//!
//! Invariant: plain text, no line longer than the width asked for (at least 80;
//! counts up to 10^8 fit their columns), no control byte but the newline.

use std::fmt::Write as _;

use super::{Check, Driver, Ledger, Report, Stamps, count, measured, time};

/// The driver functions that a recorder calls once it is made.
const RECORDERS: [&str; 6] = [
    "cuEventRecord",
    "cuStreamIsCapturing",
    "cuEventQuery",
    "cuEventElapsedTime",
    "cuEventElapsedTime_v2",
    "cuThreadExchangeStreamCaptureMode",
];

/// `report` in lines of at most `width` characters.
pub fn render(report: &Report, width: usize) -> String {
    let width = width.max(80);
    let mut out = Page {
        text: String::new(),
        width,
    };
    head(report, &mut out);
    out.gap();
    measured::lanes(report, &mut out);
    out.gap();
    measured::kernels(&report.shown.snapshot, report.every, &mut out);
    out.gap();
    facts(report, &mut out);
    out.text
}

pub(super) struct Page {
    text: String,
    pub(super) width: usize,
}

impl Page {
    pub(super) fn line(&mut self, line: &str) {
        let line: String = line
            .chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect();
        let _ = writeln!(self.text, "{}", line.trim_end());
    }

    fn gap(&mut self) {
        self.text.push('\n');
    }

    /// A label and its text, wrapped between words under the text's begin.
    pub(super) fn fact(&mut self, label: &str, text: &str) {
        let indent = 10;
        let mut line = format!("{label:<indent$}");
        let mut empty = true;
        for mut word in words(text) {
            loop {
                let used = line.chars().count() + usize::from(!empty);
                let size = word.chars().count();
                if used + size <= self.width {
                    break;
                }
                if !empty {
                    self.line(&line);
                    line = " ".repeat(indent);
                    empty = true;
                    continue;
                }
                // A word longer than a line is split.
                let fit = self.width - indent;
                line.extend(word.chars().take(fit));
                word = word.chars().skip(fit).collect();
                self.line(&line);
                line = " ".repeat(indent);
            }
            if !empty {
                line.push(' ');
            }
            line.push_str(&word);
            empty = false;
        }
        self.line(&line);
    }
}

/// The words of a text; a number stays with its unit.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let unit = word.trim_end_matches([',', ';', ':']);
        match words.last_mut() {
            Some(number) if ["ns", "µs", "ms", "s", "%"].contains(&unit) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

fn head(report: &Report, out: &mut Page) {
    let trace = report.trace.as_deref().unwrap_or("built-in workload");
    out.fact("replay", trace);
    let driver = match report.driver {
        Driver::Simulated => "simulated",
        Driver::Cuda => "cuda",
    };
    out.fact("driver", &format!("{driver}, {}", report.driver_path));
    out.fact("device", &report.device);
    let stamps = match report.stamps {
        Stamps::Ideal => "ideal: launched at recorded starts, at no cost",
        Stamps::Honest => "honest: launched at recorded host times, at a driver's cost",
        Stamps::Device => "the device's own",
    };
    out.fact("stamps", stamps);
    let armed = match report.every {
        1 => format!("{}, every one armed", count(report.steps)),
        n => format!(
            "{}, one in {n} armed: {}",
            count(report.steps),
            count(report.armed_steps)
        ),
    };
    out.fact("steps", &armed);
}

fn facts(report: &Report, out: &mut Page) {
    let shown = &report.shown;
    measured::busy(report, out);
    measured::losses(&shown.snapshot, out);
    out.fact(
        "graphs",
        &format!(
            "{} launches of {} kernels: the graph has a row, a kernel in it has none",
            count(report.graphs.launches),
            count(report.graphs.kernels)
        ),
    );
    measured::launches(&shown.snapshot, out);
    measured::floor(&shown.snapshot, out);
    if let Some(waiting) = shown.waiting_ns {
        out.fact(
            "waiting",
            &format!(
                "{} of the kernels' time is a stream waiting for its host, not work",
                time(waiting)
            ),
        );
    }
    let overlap: u64 = report.lanes.iter().map(|lane| lane.overlap_ns).sum();
    if overlap > 0 {
        out.fact(
            "overlap",
            &format!(
                "{} recorded at once on a lane's stream, replayed end to end",
                time(overlap)
            ),
        );
    }
    if let Some(found) = &shown.check {
        out.fact("check", &check(found, &report.ledger));
    }
    ledger(&report.ledger, out);
    let calls: Vec<String> = report
        .driver_calls
        .iter()
        .filter(|(name, _)| RECORDERS.contains(&name.as_str()))
        .map(|(name, n)| format!("{name} {}", count(*n)))
        .collect();
    if !calls.is_empty() {
        out.fact("calls", &calls.join(", "));
    }
    for note in &shown.notes {
        out.fact("note", note);
    }
}

fn check(found: &Check, ledger: &Ledger) -> String {
    let is_all = ledger.landed == ledger.attempts && ledger.table_full == 0;
    let off = |ns: u64| match ns {
        0 => "to the nanosecond".to_owned(),
        ns if is_all => format!("but for {} of f32 rounding", time(ns)),
        ns => format!("but for {} of lost spans and f32 rounding", time(ns)),
    };
    let lanes = off(found.lanes_off_ns);
    match found.kernels_off_ns {
        Some(ns) if ns == found.lanes_off_ns => {
            format!("lanes and kernels equal the plan's own sums, {lanes}")
        }
        Some(ns) => {
            format!(
                "lanes equal the plan's own sums, {lanes}; kernels, {}",
                off(ns)
            )
        }
        None => format!("lanes equal the plan's own sums, {lanes}"),
    }
}

fn ledger(l: &Ledger, out: &mut Page) {
    let parts = |parts: &[(u64, &str)]| -> String {
        let shown: Vec<String> = parts
            .iter()
            .enumerate()
            .filter(|(i, (n, _))| *i == 0 || *n > 0)
            .map(|(_, (n, what))| format!("{} {what}", count(*n)))
            .collect();
        shown.join(" + ")
    };
    let attempts = parts(&[
        (l.begun, "begun"),
        (l.dropped, "dropped"),
        (l.refused, "refused"),
    ]);
    let begun = parts(&[
        (l.landed, "landed"),
        (l.failed, "failed"),
        (l.cancelled, "cancelled"),
        (l.reclaimed, "reclaimed"),
        (l.in_flight, "in flight"),
    ]);
    out.fact(
        "ledger",
        &format!("{} attempts = {attempts}", count(l.attempts)),
    );
    out.fact("", &format!("{} begun = {begun}", count(l.begun)));
    if l.stale_ends + l.table_full > 0 {
        out.fact(
            "",
            &format!(
                "{} stale ends, {} without a row",
                count(l.stale_ends),
                count(l.table_full)
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::report;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_page() {
        let page = render(&report(), 80);
        println!("{page}");
        assert_eq!(page, include_str!("../../tests/data/report.txt"));
    }

    proptest! {
        #[test]
        fn no_line_is_too_long(name in "\\PC{0,300}", note in ".{0,300}", n in 0u64..100_000_000, width in 0usize..120) {
            let mut report = report();
            report.shown.snapshot.kernels[0].name = Some(name.clone());
            report.shown.snapshot.kernels[0].lanes[0].estimate.steps = n;
            report.trace = Some(name);
            report.device = note.clone();
            report.shown.notes = vec![note];
            let page = render(&report, width);
            for line in page.lines() {
                prop_assert!(line.chars().count() <= width.max(80), "{}", line);
            }
            prop_assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
        }
    }
}
