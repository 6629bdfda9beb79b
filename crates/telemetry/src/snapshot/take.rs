// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a snapshot is taken, and what recorders add to it.

use super::{
    HostSnapshot, KernelLane, KernelSnapshot, LaneSnapshot, LaunchBound, RecorderSnapshot,
    SNAPSHOT_VERSION, Snapshot,
};
use crate::floor::Floor;
use crate::instrument::HistogramSnapshot;
use crate::kernel::{KernelEstimate, LANES};
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
    /// It is a graph of the application.
    pub is_graph: bool,
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
        let floor = self.floor();
        let estimates = self.kernel_estimates();
        let exposed = self.exposed.read(instruments);
        let sources = lock(&self.sources.0);
        let recorders: Vec<_> = sources.iter().filter_map(Known::recorder).collect();
        let name = |func| sources.iter().find_map(|known| known.name(func));
        let mut kernels: BTreeMap<(Option<Arc<str>>, bool), KernelSnapshot> = BTreeMap::new();
        for row in exposed.kernels {
            let named = name(row.func);
            let is_graph = named.as_ref().is_some_and(|name| name.is_graph);
            let text = named.map(|name| name.text);
            let kernel = KernelSnapshot {
                name: text.as_deref().map(str::to_owned),
                is_graph,
                series: text
                    .as_ref()
                    .and_then(|name| exposed.labels.get(name).cloned()),
                total_ns: row.total_ns,
                samples: row.samples,
                near_floor: None,
                lanes: lanes_of(row.func, &estimates),
            };
            match kernels.get_mut(&(text.clone(), is_graph)) {
                // The same name under another handle.
                Some(known) => known.join(&kernel),
                None => drop(kernels.insert((text, is_graph), kernel)),
            }
        }
        drop(sources);
        let host = self.host();
        let mut snapshot = Snapshot {
            version: SNAPSHOT_VERSION,
            sources: 1,
            labels: labels(&recorders),
            config: Some(self.config()),
            steps: self.steps(),
            armed_steps: self.armed_steps(),
            sampled_launches: self.sampled_launches(),
            host: HostSnapshot {
                step_wall: host.step_wall.snapshot(),
                launches: host.launches.get(),
                graph_launches: host.graph_launches.get(),
            },
            lanes: (0..LANES.len()).map(|lane| self.lane(lane)).collect(),
            lane_gap_unknown: instruments.lane_gap_unknown.get(),
            kernel_gap_unknown: instruments.kernel_gap_unknown.get(),
            kernels: kernels.into_values().collect(),
            kernel_series: exposed.series,
            estimate_losses: self.estimate_losses(),
            table_full: instruments.table_full.get(),
            spans_dropped: instruments.spans_dropped.get(),
            span_failures: instruments.span_failures.get(),
            floor,
            recorders,
        };
        snapshot.judge();
        snapshot
    }

    fn lane(&self, lane: usize) -> LaneSnapshot {
        let (instruments, host) = (self.instruments(), self.host());
        LaneSnapshot {
            lane: LANES[lane].to_owned(),
            gpu: instruments.lane[lane].snapshot(),
            gap: instruments.lane_gap[lane].snapshot(),
            kernel_gap: instruments.kernel_gap[lane].snapshot(),
            wall: host.lane_wall[lane].snapshot(),
            armed_ns: instruments.lane_armed_ns[lane].get(),
            kernel_ns: instruments.lane_kernel_ns[lane].get(),
            launch_bound: None,
            estimate: self.lane_estimate(lane),
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

/// The GPU, where all recorders share it.
fn labels(recorders: &[RecorderSnapshot]) -> BTreeMap<String, String> {
    let mut gpus: Vec<&str> = recorders.iter().map(|it| it.gpu.as_str()).collect();
    gpus.dedup();
    match gpus[..] {
        [gpu] => BTreeMap::from([("gpu".to_owned(), gpu.to_owned())]),
        _ => BTreeMap::new(),
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
    /// Judges gaps and kernels by the floor, and sorts the kernels.
    pub(super) fn judge(&mut self) {
        let Floor { pair_ns, .. } = self.floor;
        for lane in &mut self.lanes {
            lane.launch_bound = pair_ns.map(|floor_ns| launch_bound(&lane.kernel_gap, floor_ns));
        }
        for kernel in &mut self.kernels {
            kernel.near_floor = pair_ns.map(|floor_ns| {
                kernel.total_ns <= floor_ns.saturating_mul(3).saturating_mul(kernel.samples)
            });
        }
        self.kernels
            .sort_by(|a, b| (b.total_ns, &a.name).cmp(&(a.total_ns, &b.name)));
    }
}

/// The gaps above the floor, as exactly as their buckets tell.
fn launch_bound(gaps: &HistogramSnapshot, floor_ns: u64) -> LaunchBound {
    let mut bound = LaunchBound::default();
    for bucket in &gaps.buckets {
        if bucket.sum_ns > floor_ns.saturating_mul(bucket.count) {
            bound.launches += bucket.count;
            bound.gap_ns = bound.gap_ns.wrapping_add(bucket.sum_ns);
        }
    }
    bound
}
