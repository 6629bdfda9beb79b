// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a snapshot is taken, and what recorders add to it.

use super::{
    HostSnapshot, KernelLane, KernelSnapshot, LaneSnapshot, RecorderSnapshot, RowKind,
    SNAPSHOT_VERSION, Snapshot,
};
use crate::kernel::{FoldedCopy, KernelEstimate};
use crate::lanes::LaneNamesError;
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
pub(crate) struct Sources(Mutex<Vec<Known>>);

impl Sources {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self(Mutex::new(Vec::new()))
        }
    }
}

impl Sources {
    /// Runs `set` while no recorder was made, and none is taken in meanwhile.
    pub(crate) fn before_the_first(
        &self,
        set: impl FnOnce() -> Result<(), LaneNamesError>,
    ) -> Result<(), LaneNamesError> {
        let sources = lock(&self.0);
        if sources.is_empty() {
            set()
        } else {
            Err(LaneNamesError::TooLate)
        }
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sources")
            .field(&lock(&self.0).len())
            .finish()
    }
}

impl Telemetry {
    /// Takes in what a recorder knows, for snapshots.
    pub fn attach(&self, source: Weak<dyn Source>) {
        self.instruments().take_log_memory();
        lock(&self.sources.0).push(Known::Alive(source));
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
        if let Some(known) = lock(&self.sources.0).iter_mut().find(is_it) {
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
        let recorders: Vec<_> = sources.iter().filter_map(Known::recorder).collect();
        let name = |func| sources.iter().find_map(|known| known.name(func));
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
                lanes: self.lanes_of(row.func, &estimates),
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
            labels: labels(&recorders),
            config: Some(config),
            steps: self.steps(),
            armed_steps: self.armed_steps(),
            sampled_launches: self.sampled_launches(),
            host: HostSnapshot {
                step_wall: host.step_wall.snapshot(),
                launches: host.launches.get(),
                graph_launches: host.graph_launches.get(),
            },
            lanes: (0..self.lanes())
                .filter_map(|lane| self.lane(lane, &folded))
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

    fn lane(&self, lane: usize, folded: &FoldedCopy) -> Option<LaneSnapshot> {
        let (instruments, host) = (self.instruments(), self.host());
        Some(LaneSnapshot {
            lane: self.lane_name(lane)?.to_owned(),
            gpu: instruments.lane_times(lane)?.snapshot(),
            gap: instruments.lane_gaps(lane)?.snapshot(),
            wall: host.lane_walls(lane)?.snapshot(),
            figures: folded.lane(lane),
            incomplete: folded.incomplete(lane),
            estimate: folded.lane_estimate(lane),
        })
    }
}

impl Telemetry {
    fn lanes_of(&self, func: u64, estimates: &[KernelEstimate]) -> Vec<KernelLane> {
        let own = estimates.iter().filter(|row| row.func == func);
        let of = |row: &KernelEstimate| {
            Some(KernelLane {
                lane: self.lane_name(row.lane)?.to_owned(),
                estimate: row.estimate,
            })
        };
        own.filter_map(of).collect()
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

/// The GPU, where all recorders share it.
fn labels(recorders: &[RecorderSnapshot]) -> BTreeMap<String, String> {
    let mut gpus: Vec<&str> = recorders.iter().map(|it| it.gpu.as_str()).collect();
    gpus.dedup();
    match gpus[..] {
        [gpu] => BTreeMap::from([("gpu".to_owned(), gpu.to_owned())]),
        _ => BTreeMap::new(),
    }
}

impl Snapshot {
    /// Sorts the kernels.
    pub(super) fn sort(&mut self) {
        self.kernels
            .sort_by(|a, b| (b.total_ns, &a.name).cmp(&(a.total_ns, &b.name)));
    }
}
