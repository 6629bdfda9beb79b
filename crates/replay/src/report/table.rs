// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns that the tables of kernels share: name, lane, share, error, total, and
//! how often.

use super::text::Page;
use super::{Report, percent, time};

/// See the module.
pub(super) struct Columns {
    /// Characters of a name, and one.
    pub(super) name: usize,
    lane: usize,
    /// Where every step was armed nothing is estimated.
    has_errors: bool,
}

/// What is not shown of a table, added up.
pub(super) struct Rest {
    pub(super) rows: usize,
    /// `None`: shares of several lanes cannot be added up.
    pub(super) share: Option<f64>,
    pub(super) total_ns: f64,
}

impl Columns {
    /// Over the width of the page; `lane` characters are for the lane.
    pub(super) fn new(report: &Report, out: &Page, lane: usize) -> Self {
        let has_errors = report.every > 1;
        let figures = if has_errors { 36 } else { 27 };
        Self { name: out.width - lane - figures, lane, has_errors }
    }

    pub(super) fn line(&self, cells: [&str; 6], out: &mut Page) {
        let [name, lane, share, error, total, often] = cells;
        let error = if self.has_errors { format!("{error:>9}") } else { String::new() };
        let (of_name, of_lane) = (self.name, self.lane);
        out.line(&format!(
            "{name:<of_name$}{lane:<of_lane$}{share:>7}{error}{total:>10}{often:>10}"
        ));
    }

    /// The last line, where there is more.
    pub(super) fn rest(&self, rest: &Rest, out: &mut Page) {
        if rest.rows > 0 {
            let share = rest.share.map(percent).unwrap_or_default();
            let total = time(rest.total_ns.round() as u64);
            let label = format!("and {} more", rest.rows);
            self.line([&label, "", &share, "", &total, ""], out);
        }
    }
}

/// An error of a share of 1, in percent.
pub(super) fn error(of_share: Option<f64>) -> String {
    match of_share.map(|error| error * 100.0) {
        None => "too few".to_owned(),
        Some(error @ 0.000_5..0.01) => format!("{error:.3} %"),
        Some(error) => format!("{error:.2} %"),
    }
}
