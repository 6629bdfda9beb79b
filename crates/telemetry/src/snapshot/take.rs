// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a snapshot is taken, and what recorders add to it.

use super::{
    HostSnapshot, KernelLane, KernelSnapshot, LaneSnapshot, RecorderSnapshot, RowKind,
    SNAPSHOT_VERSION, Snapshot,
};
use crate::clock::unix_ns;
use crate::kernel::{FoldedCopy, KernelEstimate, LANES};
use crate::sync::{Mutex, const_fn, lock};
use crate::telemetry::Telemetry;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

/// What only a recorder knows of its telemetry.
pub trait Source: Send + Sync {
    /// Its label, ledgers and health now.
    fn recorder(&self) -> RecorderSnapshot;

    /// The name of a kernel's row ([`KernelTime::func`](crate::kernel::KernelTime)),
    /// if it has one here.
    fn name(&self, func: u64) -> Option<KernelName>;
}

/// The name of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelName {
    /// The text, whole.
    pub text: Arc<str>,
    /// What it names.
    pub kind: RowKind,
}

enum Known {
    Alive(Weak<dyn Source>),
    /// Closed: what it left, so that no counter falls and no name goes.
    Over(Box<Last>),
}

/// What a closed recorder said last.
struct Last {
    recorder: RecorderSnapshot,
    names: BTreeMap<u64, KernelName>,
}

/// The recorders that ever measured. The lock is for reading and for making
/// and closing recorders: no serving thread takes it.
pub(crate) struct Sources(Mutex<List>);

struct List {
    /// Set once, so that no label and no start time of a snapshot changes.
    first: Option<First>,
    known: Vec<Known>,
}

/// What the first recorder settled.
struct First {
    gpu: String,
    start_unix_ns: Option<u64>,
}

/// A recorder that is not on the GPU of the telemetry's first one. `unknown` is
/// the same as `unknown` only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this telemetry measures GPU {ours:?}, and the recorder is on {theirs:?}: give each GPU a `Telemetry` of its own"
)]
pub struct OtherGpu {
    /// The GPU of the telemetry.
    pub ours: String,
    /// The GPU of the recorder.
    pub theirs: String,
}

impl List {
    fn admits(&self, gpu: &str) -> Result<(), OtherGpu> {
        match &self.first {
            Some(first) if first.gpu != gpu => Err(OtherGpu {
                ours: first.gpu.clone(),
                theirs: gpu.to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

impl Sources {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self(Mutex::new(List { first: None, known: Vec::new() }))
        }
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sources")
            .field(&lock(&self.0).known.len())
            .finish()
    }
}

impl Telemetry {
    /// Takes in what a recorder knows, for snapshots. The first one settles
    /// which GPU this telemetry measures. A source that is gone is none.
    ///
    /// # Errors
    /// [`OtherGpu`]; nothing is taken in.
    pub fn attach(&self, source: Weak<dyn Source>) -> Result<(), OtherGpu> {
        let Some(gpu) = source.upgrade().map(|source| source.recorder().gpu) else {
            return Ok(());
        };
        let mut list = lock(&self.sources.0);
        list.admits(&gpu)?;
        list.first.get_or_insert_with(|| First {
            gpu,
            start_unix_ns: unix_ns(),
        });
        list.known.push(Known::Alive(source));
        Ok(())
    }

    /// Whether a recorder of that GPU can be attached now.
    ///
    /// # Errors
    /// [`OtherGpu`].
    pub fn admits(&self, gpu: &str) -> Result<(), OtherGpu> {
        lock(&self.sources.0).admits(gpu)
    }

    /// Keeps what a recorder knew, because it is closed; `source` is the one
    /// that was attached.
    pub fn detach(&self, source: &Arc<dyn Source>) {
        let funcs = self.instruments().kernels().into_iter();
        let named = funcs.filter_map(|row| Some((row.func, source.name(row.func)?)));
        let last = Last {
            names: named.collect(),
            recorder: source.recorder(),
        };
        let is_it = |known: &&mut Known| match known {
            Known::Alive(weak) => std::ptr::addr_eq(weak.as_ptr(), Arc::as_ptr(source)),
            Known::Over(_) => false,
        };
        if let Some(known) = lock(&self.sources.0).known.iter_mut().find(is_it) {
            *known = Known::Over(Box::new(last));
        }
    }

    /// Everything that was measured so far. It allocates, and stops nobody.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let instruments = self.instruments();
        let config = self.config();
        let folded = instruments.copy_folded();
        let estimates = folded.kernel_estimates(config.sampling, config.every);
        let exposed = self.exposed.read(instruments);
        let sources = lock(&self.sources.0);
        let first = sources.first.as_ref();
        let gpu = first.map(|first| ("gpu".to_owned(), first.gpu.clone()));
        let start_unix_ns = first.and_then(|first| first.start_unix_ns);
        let recorders: Vec<_> = sources.known.iter().filter_map(Known::recorder).collect();
        let name = |func| sources.known.iter().find_map(|known| known.name(func));
        let mut kernels: BTreeMap<(Option<Arc<str>>, RowKind), KernelSnapshot> = BTreeMap::new();
        for row in exposed.kernels {
            let named = name(row.func);
            let kind = named.as_ref().map(|name| name.kind).unwrap_or_default();
            let text = named.map(|name| name.text);
            let series = text.as_ref().and_then(|name| exposed.labels.get(name));
            let kernel = KernelSnapshot {
                name: text.as_deref().map(str::to_owned),
                kind,
                series: series.cloned(),
                total_ns: row.total_ns,
                samples: row.samples,
                figures: folded.row(row.func),
                lanes: lanes_of(row.func, &estimates),
            };
            match kernels.get_mut(&(text.clone(), kind)) {
                // The same name under another handle.
                Some(known) => known.join(&kernel),
                None => drop(kernels.insert((text, kind), kernel)),
            }
        }
        drop(sources);
        let host = self.host();
        let mut snapshot = Snapshot {
            version: SNAPSHOT_VERSION,
            sources: 1,
            labels: gpu.into_iter().collect(),
            start_unix_ns,
            config: Some(config),
            steps: self.steps(),
            armed_steps: self.armed_steps(),
            sampled_launches: self.sampled_launches(),
            host: HostSnapshot {
                step_wall: host.step_wall.snapshot(),
                launches: host.launches.get(),
                graph_launches: host.graph_launches.get(),
            },
            lanes: (0..LANES.len())
                .map(|lane| self.lane(lane, &folded))
                .collect(),
            device: folded.device(),
            lane_gap_unknown: instruments.lane_gap_unknown.get(),
            kernels: kernels.into_values().collect(),
            kernel_series: exposed.series,
            losses: folded.losses(),
            table_full: instruments.table_full.get(),
            spans_dropped: instruments.spans_dropped.get(),
            span_failures: instruments.span_failures.get(),
            floor: self.floor(),
            recorders,
        };
        snapshot.sort();
        snapshot
    }

    fn lane(&self, lane: usize, folded: &FoldedCopy) -> LaneSnapshot {
        let (instruments, host) = (self.instruments(), self.host());
        LaneSnapshot {
            lane: LANES[lane].to_owned(),
            gpu: instruments.lane[lane].snapshot(),
            gap: instruments.lane_gap[lane].snapshot(),
            wall: host.lane_wall[lane].snapshot(),
            figures: folded.lane(lane),
            incomplete: folded.incomplete(lane),
            estimate: folded.lane_estimate(lane),
        }
    }
}

impl Known {
    fn recorder(&self) -> Option<RecorderSnapshot> {
        match self {
            Known::Alive(source) => source.upgrade().map(|source| source.recorder()),
            Known::Over(last) => Some(last.recorder.clone()),
        }
    }

    fn name(&self, func: u64) -> Option<KernelName> {
        match self {
            Known::Alive(source) => source.upgrade()?.name(func),
            Known::Over(last) => last.names.get(&func).cloned(),
        }
    }
}

fn lanes_of(func: u64, estimates: &[KernelEstimate]) -> Vec<KernelLane> {
    let own = estimates.iter().filter(|it| it.func == func);
    own.map(|it| KernelLane {
        lane: LANES[it.lane].to_owned(),
        estimate: it.estimate,
    })
    .collect()
}

impl Snapshot {
    /// Sorts the kernels.
    pub(super) fn sort(&mut self) {
        self.kernels
            .sort_by(|a, b| (b.total_ns, &a.name).cmp(&(a.total_ns, &b.name)));
    }
}
