// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a family of metrics is, and a sample of it.

use super::page::Page;
use crate::instrument::HistogramSnapshot;
use crate::snapshot::Snapshot;
use prometheus_client::metrics::MetricType;

/// Metrics of one name. The name is without unit and suffix, which the format
/// adds; `full_name` is what a server sees.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) metric_type: MetricType,
    /// Its values are seconds.
    pub(super) seconds: bool,
    /// One sentence without a full stop.
    pub(super) help: &'static str,
    /// Labels besides those of the snapshot, or of the collector.
    pub(super) labels: &'static [&'static str],
    /// How many series there are at most, for each set of the common labels.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for docs/metrics.md, which a test holds to it")
    )]
    pub(super) series: &'static str,
    pub(super) read: Read,
}

impl Family {
    #[cfg(test)]
    pub(super) fn full_name(&self) -> String {
        let unit = if self.seconds { "_seconds" } else { "" };
        let suffix = match self.metric_type {
            MetricType::Counter => "_total",
            MetricType::Info => "_info",
            _ => "",
        };
        format!("{}{unit}{suffix}", self.name)
    }
}

/// Where a family's samples come from.
#[derive(Clone, Copy)]
pub(super) enum Read {
    /// From each snapshot.
    Snapshot(fn(&Snapshot) -> Vec<Sample<'_>>),
    /// From the page as a whole.
    Page(fn(&Page) -> Vec<Sample<'_>>),
}

/// One series' value now.
pub(super) struct Sample<'a> {
    /// In the order of the family's labels.
    pub(super) labels: Vec<(&'static str, &'a str)>,
    pub(super) value: Value<'a>,
}

/// A value by its kind.
pub(super) enum Value<'a> {
    Count(u64),
    Nanos(u64),
    Float(f64),
    Histogram(&'a HistogramSnapshot),
    Info,
}

/// Nanoseconds as seconds, to the nearest float.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

pub(super) fn sample<'a, const N: usize>(
    labels: [(&'static str, &'a str); N],
    value: Value<'a>,
) -> Sample<'a> {
    Sample { labels: labels.to_vec(), value }
}

/// The one sample of a family without labels.
pub(super) fn count(value: u64) -> Vec<Sample<'static>> {
    vec![sample([], Value::Count(value))]
}

/// As [`count`], where the value is known.
pub(super) fn known_nanos(ns: Option<u64>) -> Vec<Sample<'static>> {
    ns.map(|ns| sample([], Value::Nanos(ns))).into_iter().collect()
}
