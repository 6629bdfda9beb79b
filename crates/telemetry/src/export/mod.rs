// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics for Prometheus: in the registry that the application has, or as text
//! for a page that something else writes.
//!
//! ```toml
//! metrale-telemetry = { version = "0.1", features = ["prometheus"] }
//! prometheus-client = "0.26"
//! ```
//!
//! ```
//! use metrale_telemetry::export::MetraleCollector;
//! use prometheus_client::{encoding::prometheus_text, registry::Registry};
//!
//! // At the start; series begin with the first recorder.
//! let mut registry = Registry::default();
//! let collector = MetraleCollector::new(metrale_telemetry::global());
//! collector.label("model", "llama")?.register(&mut registry)?;
//!
//! // At each scrape.
//! let mut page = String::new();
//! prometheus_text::encode(&mut page, &registry)?;
//! # assert!(page.contains("metrale_export_snapshots{model=\"llama\",state=\"no_gpu\"} 1\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Without a `prometheus_client` registry there is [`text`]. Which metrics there
//! are is in `families`, and in the project's `docs/metrics.md`.
//!
//! 1. A scrape changes nothing that another one would see. It takes no lock that
//!    a serving thread takes but to look up a name, and allocates what a snapshot
//!    and the page take.
//! 2. No counter falls while its process lives, and no series of one goes away.
//! 3. A series has its labels from its first scrape on: a snapshot is shown once
//!    it has the label `gpu`.
//! 4. A series is written once: what has the same labels is merged before, and a
//!    registry takes one collector.
//! 5. Classic and native buckets of a histogram are of the same snapshot. Text
//!    shows the classic ones, protobuf both.

mod families;
mod graphs;
mod kernels;
mod labels;
mod page;
mod sample;
mod shapes;
#[cfg(test)]
mod tests;
mod write;

pub use labels::LabelError;

use crate::snapshot::{MAX_KERNEL_SERIES, Snapshot};
use crate::telemetry::Telemetry;
use families::PAGE_FAMILY;
use labels::Labels;
use page::Page;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text};
use prometheus_client::registry::Registry;
use std::fmt;

/// How many kernels have series of their own, where nobody says how many: in
/// published profiles the top 20 take over four fifths of all launches.
///
/// ```
/// use metrale_telemetry::export::{MetraleCollector, TOP_KERNELS};
///
/// let collector = MetraleCollector::new(metrale_telemetry::global());
/// let twice_as_many = collector.top_kernels(2 * TOP_KERNELS);
/// ```
pub const TOP_KERNELS: usize = 20;

/// Everything that telemetry measures, as metrics. A registry, or a page, takes
/// one: it holds the telemetry of every GPU of the process, each with its label
/// `gpu`. See the [module](self) for how it is used.
pub struct MetraleCollector {
    sources: Vec<Source>,
    labels: Labels,
}

enum Source {
    Telemetry(&'static Telemetry),
    Snapshots(Box<dyn Fn() -> Vec<Snapshot> + Send + Sync>),
}

/// A registry that has metrics of this crate already; nothing was registered.
///
/// ```
/// use metrale_telemetry::export::{MetraleCollector, RegisterError};
/// use prometheus_client::registry::Registry;
///
/// let collector = || MetraleCollector::new(metrale_telemetry::global());
/// let mut registry = Registry::default();
/// collector().register(&mut registry)?;
/// assert_eq!(collector().register(&mut registry), Err(RegisterError::Twice));
/// # Ok::<(), RegisterError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// A second collector would write every metric's description again.
    #[error(
        "the registry has a collector of metrale already: add other telemetry to that one (`MetraleCollector::and`)"
    )]
    Twice,
    /// Something else that is registered cannot be encoded.
    #[error("the registry cannot be encoded: register metrale first, or mend what is in it")]
    Broken,
}

impl MetraleCollector {
    /// A collector of a GPU's telemetry, with [`TOP_KERNELS`] kernels that have
    /// series of their own.
    ///
    /// ```
    /// use metrale_telemetry::export::MetraleCollector;
    ///
    /// let collector = MetraleCollector::new(metrale_telemetry::global());
    /// ```
    #[must_use]
    pub fn new(telemetry: &'static Telemetry) -> Self {
        let empty = Self { sources: Vec::new(), labels: Labels::default() };
        empty.and(telemetry)
    }

    /// A collector of what `snapshots` returns at each scrape: of a process that
    /// gathers those of others. Each has its labels from
    /// [`Snapshot::labels`], which must tell it apart from the others: those with
    /// the same labels are added up, and fall where one of them is missing. One
    /// without the label `gpu`, or of another version, is left out and counted in
    /// `metrale_export_snapshots`. Kernels have the series that the snapshots have.
    ///
    /// ```
    /// use metrale_telemetry::Snapshot;
    /// use metrale_telemetry::export::{MetraleCollector, text};
    ///
    /// # fn fetch(rank: u32) -> Option<String> {
    /// #     let json = |gpu| format!(r#"{{"version": 2, "labels": {{"gpu": "{gpu}"}}, "steps": 7}}"#);
    /// #     Some(json("GPU-1"))
    /// # }
    /// /// The snapshots that can be had now; `fetch` returns the JSON of a worker.
    /// fn gather() -> Vec<Snapshot> {
    ///     let of = |rank| {
    ///         let mut snapshot: Snapshot = serde_json::from_str(&fetch(rank)?).ok()?;
    ///         snapshot.labels.insert("rank".to_owned(), rank.to_string());
    ///         Some(snapshot)
    ///     };
    ///     (0..8).filter_map(of).collect()
    /// }
    ///
    /// let page = text(&MetraleCollector::from_fn(gather));
    /// assert!(page.contains("metrale_steps_total{gpu=\"GPU-1\",rank=\"7\"} 7\n"));
    /// ```
    #[must_use]
    pub fn from_fn<S>(snapshots: impl Fn() -> S + Send + Sync + 'static) -> Self
    where
        S: IntoIterator<Item = Snapshot>,
    {
        let gather = move || snapshots().into_iter().collect();
        Self { sources: vec![Source::Snapshots(Box::new(gather))], labels: Labels::default() }
    }

    /// Adds the telemetry of another GPU of the process; one that is there
    /// already is there once.
    ///
    /// ```
    /// use metrale_telemetry::Telemetry;
    /// use metrale_telemetry::export::MetraleCollector;
    ///
    /// static GPUS: [Telemetry; 2] = [const { Telemetry::new() }; 2];
    /// let collector = MetraleCollector::new(&GPUS[0]).and(&GPUS[1]);
    /// ```
    #[must_use]
    pub fn and(mut self, telemetry: &'static Telemetry) -> Self {
        if !self.telemetry().any(|known| std::ptr::eq(known, telemetry)) {
            telemetry.expose_kernels(TOP_KERNELS);
            self.sources.push(Source::Telemetry(telemetry));
        }
        self
    }

    /// Adds a label to every series, for example what is served. One that a
    /// snapshot has under the same name is replaced: to name a GPU otherwise,
    /// or where there is no recorder, set `gpu`.
    ///
    /// ```
    /// use metrale_telemetry::export::{MetraleCollector, text};
    ///
    /// let collector = MetraleCollector::new(metrale_telemetry::global());
    /// let named = collector.label("gpu", "left")?.label("model", "llama")?;
    /// assert!(text(&named).contains("metrale_steps_total{gpu=\"left\",model=\"llama\"} 0\n"));
    /// # Ok::<(), metrale_telemetry::export::LabelError>(())
    /// ```
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
    ///
    /// ```
    /// use metrale_telemetry::export::MetraleCollector;
    ///
    /// let collector = MetraleCollector::new(metrale_telemetry::global()).top_kernels(50);
    /// ```
    #[must_use]
    pub fn top_kernels(self, top: usize) -> Self {
        for telemetry in self.telemetry() {
            telemetry.expose_kernels(top.min(MAX_KERNEL_SERIES));
        }
        self
    }

    /// Has `registry` show these metrics at each scrape. Give it the registry
    /// that is encoded: one below it does not see what is in others. What is in
    /// it is encoded once.
    ///
    /// ```
    /// use metrale_telemetry::export::MetraleCollector;
    /// use prometheus_client::registry::Registry;
    ///
    /// let mut registry = Registry::default(); // or the one that you have
    /// MetraleCollector::new(metrale_telemetry::global()).register(&mut registry)?;
    /// # Ok::<(), metrale_telemetry::export::RegisterError>(())
    /// ```
    ///
    /// # Errors
    /// [`RegisterError`], where the registry has a collector of these already, or
    /// what is in it cannot be encoded.
    pub fn register(self, registry: &mut Registry) -> Result<(), RegisterError> {
        let mut page = String::new();
        prometheus_text::encode(&mut page, registry).map_err(|fmt::Error| RegisterError::Broken)?;
        let names = page.lines().filter_map(|line| {
            let (name, _) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
            Some(name)
        });
        // With whatever prefix the registry has.
        if names.into_iter().any(|name| name.ends_with(PAGE_FAMILY)) {
            return Err(RegisterError::Twice);
        }
        registry.register_collector(Box::new(Registered(self)));
        Ok(())
    }

    fn telemetry(&self) -> impl Iterator<Item = &'static Telemetry> {
        self.sources.iter().filter_map(|source| match source {
            Source::Telemetry(telemetry) => Some(*telemetry),
            Source::Snapshots(_) => None,
        })
    }

    fn page(&self) -> Page {
        let snapshots = self.sources.iter().flat_map(|source| match source {
            Source::Telemetry(telemetry) => vec![telemetry.snapshot()],
            Source::Snapshots(gather) => gather(),
        });
        Page::new(self.labels.clone(), snapshots)
    }
}

/// All metrics now in Prometheus' text format (0.0.4), for stacks on another
/// metrics library or with a page of their own: append it to a page of that
/// format, whose last line has ended, or serve it alone. Make the collector once,
/// at the start.
///
/// ```
/// use metrale_telemetry::export::{MetraleCollector, text};
///
/// let collector = MetraleCollector::new(metrale_telemetry::global());
/// let mut page = String::from("# TYPE app_requests_total counter\napp_requests_total 3\n");
/// page += &text(&collector);
/// # assert!(page.ends_with("state=\"no_gpu\"} 1\n"));
/// ```
#[must_use]
pub fn text(collector: &MetraleCollector) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector.page()));
    let mut page = String::new();
    match prometheus_text::encode(&mut page, &registry) {
        Ok(()) => page,
        // A string takes every write, and `page` writes nothing unfit.
        Err(fmt::Error) => String::new(),
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

/// Private, so that [`MetraleCollector::register`] is the only way in.
#[derive(Debug)]
struct Registered(MetraleCollector);

impl Collector for Registered {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.page().encode(encoder)
    }
}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/metrics.md")]
struct Document;
