// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one scrape shows: the snapshots, no two with the same labels, and what
//! became of those that are not among them.

use super::families::FAMILIES;
use super::labels::Labels;
use super::write;
use crate::snapshot::{MergeError, SNAPSHOT_VERSION, Snapshot};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

#[derive(Debug, Default)]
pub(super) struct Page {
    /// Of the collector.
    labels: Labels,
    snapshots: Vec<(Labels, Snapshot)>,
    /// Snapshots by what became of them, besides those that are shown.
    added: u64,
    repeated: u64,
    other_version: u64,
    not_finite: u64,
    no_gpu: u64,
}

impl Page {
    pub(super) fn new(labels: Labels, snapshots: impl Iterator<Item = Snapshot>) -> Self {
        let mut page = Self { labels, ..Self::default() };
        let mut distinct: Vec<Snapshot> = Vec::new();
        for snapshot in snapshots {
            // The start time tells two telemetries apart that counted the same.
            if snapshot.start_unix_ns.is_some() && distinct.contains(&snapshot) {
                page.repeated += 1;
            } else {
                distinct.push(snapshot);
            }
        }
        distinct.into_iter().for_each(|snapshot| page.add(snapshot));
        page
    }

    fn add(&mut self, snapshot: Snapshot) {
        if snapshot.version != SNAPSHOT_VERSION {
            self.other_version += 1;
            return;
        }
        let labels = self.labels.over(&snapshot.labels);
        // Its series would change their labels once it is known.
        if !labels.has("gpu") {
            self.no_gpu += 1;
            return;
        }
        let mut shown = self.snapshots.iter_mut();
        match shown.find(|(other, _)| *other == labels) {
            Some((_, ours)) => match ours.merge(&snapshot) {
                Ok(()) => self.added += 1,
                Err(MergeError::Version { .. }) => self.other_version += 1,
                Err(_) => self.not_finite += 1,
            },
            None => self.snapshots.push((labels, snapshot)),
        }
    }

    pub(super) fn labels(&self) -> &Labels {
        &self.labels
    }

    pub(super) fn snapshots(&self) -> &[(Labels, Snapshot)] {
        &self.snapshots
    }

    /// How many snapshots there were, by what became of them.
    pub(super) fn states(&self) -> [(&'static str, u64); 6] {
        [
            ("shown", self.snapshots.len() as u64),
            ("added", self.added),
            ("repeated", self.repeated),
            ("other_version", self.other_version),
            ("not_finite", self.not_finite),
            ("no_gpu", self.no_gpu),
        ]
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = FAMILIES.iter();
        families.try_for_each(|family| write::family(family, self, &mut encoder))
    }
}
