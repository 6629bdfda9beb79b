// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics for the application's own Prometheus registry.
//!
//! [`MetraleCollector`] is registered once and reads everything anew at each
//! scrape. Which metrics there are is in `families`, and in the project's
//! `docs/metrics.md`.
//!
//! 1. A scrape changes nothing that another one would see. It takes no lock that
//!    a serving thread takes but to look up a name, and allocates what a snapshot
//!    and the page take.
//! 2. No counter falls while its process lives, and no series of one goes away.
//! 3. A series is written once: what has the same labels is merged before.
//! 4. Classic and native buckets of a histogram are of the same snapshot. Text
//!    shows the classic ones, protobuf both.

mod families;
mod kernels;
mod labels;
mod sample;
#[cfg(test)]
mod tests;
mod write;

pub use labels::LabelError;

use crate::snapshot::{MAX_KERNEL_SERIES, Snapshot};
use crate::telemetry::Telemetry;
use families::FAMILIES;
use labels::Labels;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

/// How many kernels have series of their own, where nobody says how many: in
/// published profiles the top 20 take over four fifths of all launches.
pub const TOP_KERNELS: usize = 20;

type Source = Box<dyn Fn() -> Snapshot + Send + Sync>;

/// Everything that telemetry measures, as metrics. A registry takes one: it
/// holds the telemetry of every GPU of the process, each with its label `gpu`.
///
/// ```
/// use metrale_telemetry::export::MetraleCollector;
/// use prometheus_client::registry::Registry;
///
/// let collector = MetraleCollector::new(metrale_telemetry::global()).label("model", "llama")?;
/// let mut registry = Registry::default();
/// registry.register_collector(Box::new(collector));
///
/// let mut page = String::new();
/// prometheus_client::encoding::text::encode(&mut page, &registry)?;
/// assert!(page.contains("metrale_steps_total{gpu=\"unknown\",model=\"llama\"} 0"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MetraleCollector {
    sources: Vec<Source>,
    telemetry: Vec<&'static Telemetry>,
    labels: Labels,
}

impl MetraleCollector {
    /// A collector of a GPU's telemetry, with [`TOP_KERNELS`] kernels that have
    /// series of their own.
    #[must_use]
    pub fn new(telemetry: &'static Telemetry) -> Self {
        Self::empty().and(telemetry)
    }

    /// A collector of what `snapshot` returns at each scrape: of a process that
    /// gathers those of others. Kernels have the series that the snapshots have.
    #[must_use]
    pub fn from_fn(snapshot: impl Fn() -> Snapshot + Send + Sync + 'static) -> Self {
        let mut collector = Self::empty();
        collector.sources.push(Box::new(snapshot));
        collector
    }

    fn empty() -> Self {
        Self {
            sources: Vec::new(),
            telemetry: Vec::new(),
            labels: Labels::default(),
        }
    }

    /// Adds the telemetry of another GPU of the process.
    #[must_use]
    pub fn and(mut self, telemetry: &'static Telemetry) -> Self {
        telemetry.expose_kernels(TOP_KERNELS);
        self.telemetry.push(telemetry);
        self.sources.push(Box::new(|| telemetry.snapshot()));
        self
    }

    /// Adds a label to every series, for example what is served. One that the
    /// snapshot has under the same name is replaced: to name a GPU otherwise,
    /// set `gpu`.
    ///
    /// # Errors
    /// Where it is no label's name, or one that a metric here has, or was added
    /// before.
    pub fn label(mut self, name: &str, value: &str) -> Result<Self, LabelError> {
        self.labels.add(name, value)?;
        Ok(self)
    }

    /// From now on, the `top` kernels of each GPU with the most time get series
    /// of their own: see [`Telemetry::expose_kernels`]. At most
    /// [`MAX_KERNEL_SERIES`] ever do, and who has one keeps it.
    #[must_use]
    pub fn top_kernels(self, top: usize) -> Self {
        for telemetry in &self.telemetry {
            telemetry.expose_kernels(top.min(MAX_KERNEL_SERIES));
        }
        self
    }

    /// The snapshots to write, no two with the same labels.
    fn snapshots(&self) -> Vec<(Labels, Snapshot)> {
        let mut out: Vec<(Labels, Snapshot)> = Vec::new();
        for source in &self.sources {
            let snapshot = source();
            let labels = self.labels.over(&snapshot.labels);
            let same = out.iter_mut().find(|(other, _)| *other == labels);
            match same {
                // What is of another version cannot be added; the first stands.
                Some((_, ours)) => drop(ours.merge(&snapshot)),
                None => out.push((labels, snapshot)),
            }
        }
        out
    }
}

impl Collector for MetraleCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let snapshots = self.snapshots();
        for family in FAMILIES {
            write::family(family, &snapshots, &mut encoder)?;
        }
        Ok(())
    }
}

impl fmt::Debug for MetraleCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetraleCollector")
            .field("sources", &self.sources.len())
            .field("labels", &self.labels)
            .finish_non_exhaustive()
    }
}
