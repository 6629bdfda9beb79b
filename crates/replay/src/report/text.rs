// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result for people.
//!
//! Invariant: plain text, no line longer than the width asked for (at least 80;
//! counts up to 10^8 fit their columns), no control byte but the newline.

use std::fmt::Write as _;

use super::inside::InsideGraphs;
use super::{DriverKind, Report, Stamps, count, facts, measured, slow};

/// `report` in lines of at most `width` characters.
pub fn render(report: &Report, width: usize) -> String {
    let width = width.max(80);
    let mut out = Page { text: String::new(), width };
    head(report, &mut out);
    out.gap();
    measured::lanes(report, &mut out);
    out.gap();
    let marked = measured::kernels(report, &mut out);
    out.gap();
    let inside = InsideGraphs::of(report);
    inside.table(report, &mut out);
    slow::steps(report, &mut out);
    facts::facts(report, marked, &inside, &mut out);
    out.text
}

pub(super) struct Page {
    text: String,
    pub(super) width: usize,
}

impl Page {
    pub(super) fn line(&mut self, line: &str) {
        let line: String = line.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let _ = writeln!(self.text, "{}", line.trim_end());
    }

    pub(super) fn gap(&mut self) {
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
        DriverKind::Simulated => "simulated",
        DriverKind::Cuda => "cuda",
    };
    out.fact("driver", &format!("{driver}, {}", report.driver_path));
    out.fact("device", &report.device);
    let stamps = match report.stamps {
        Stamps::Ideal => "ideal: launches come at their recorded starts and cost nothing",
        Stamps::Honest => "honest: driver calls cost the host what they do on a server",
        Stamps::Device => "the GPU's own",
    };
    out.fact("stamps", stamps);
    let armed = match report.every {
        1 => format!("{}, every one armed", count(report.steps)),
        n => format!("{}, one in {n} armed: {}", count(report.steps), count(report.armed_steps)),
    };
    out.fact("steps", &armed);
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
            report.kernels[0].name = name.clone();
            report.kernels[0].lanes[0].estimate.steps = n;
            report.slowest_steps[0].step.number = n;
            report.slowest_steps[1].step.lanes[1].lane.clone_from(&note);
            report.lanes[0].lane.clone_from(&note);
            report.trace = Some(name);
            report.device = note.clone();
            report.notes = vec![note];
            let page = render(&report, width);
            for line in page.lines() {
                prop_assert!(line.chars().count() <= width.max(80), "{}", line);
            }
            prop_assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
        }
    }
}
