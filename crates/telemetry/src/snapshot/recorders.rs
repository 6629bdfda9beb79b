// SPDX-License-Identifier: MIT OR Apache-2.0
//! What recorders add to a snapshot, while they live and after they closed.

use super::{GraphSnapshot, RecorderSnapshot};
use crate::clock::unix_ns;
use crate::graph::GraphTotal;
use crate::lanes::LaneNamesError;
use crate::rows::KernelName;
use crate::sync::{Mutex, MutexGuard, const_fn, lock_alive};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

/// What only a recorder knows of its telemetry.
pub trait RecorderSource: Send + Sync {
    /// Its label, ledgers and health now.
    fn recorder(&self) -> RecorderSnapshot;

    /// The name of a kernel's row ([`KernelTime::func`](crate::kernel::KernelTime)),
    /// if it has one here.
    fn name(&self, func: u64) -> Option<KernelName>;

    /// Its graphs that had a twin; `total_of` says what a graph took, by its row.
    fn graphs(&self, _total_of: &dyn Fn(u64) -> GraphTotal) -> Vec<GraphSnapshot> {
        Vec::new()
    }
}

enum Known {
    Alive(Weak<dyn RecorderSource>),
    /// Closed: what it left, so that no counter falls and no name goes.
    Closed(Box<ClosedRecorder>),
}

/// What a recorder said as it closed.
struct ClosedRecorder {
    recorder: RecorderSnapshot,
    names: BTreeMap<u64, KernelName>,
    graphs: Vec<GraphSnapshot>,
}

/// The recorders that ever measured. The lock is for reading and for making
/// and closing recorders: no serving thread takes it.
pub(crate) struct Recorders(Mutex<List>);

struct List {
    /// Set once, so that no label and no start time of a snapshot changes.
    first: Option<First>,
    known: Vec<Known>,
}

/// What the first recorder settled.
pub(super) struct First {
    pub(super) gpu: String,
    pub(super) start_unix_ns: Option<u64>,
}

/// A recorder that is not on the GPU of the telemetry's first one. `unknown` is
/// the same as `unknown` only.
///
/// ```
/// use metrale_telemetry::snapshot::OtherGpuError;
///
/// /// What to tell an operator.
/// fn hint(error: &OtherGpuError) -> String {
///     format!("{} is measured already: {} needs its own", error.ours, error.theirs)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this telemetry measures GPU {ours:?}, and the recorder is on {theirs:?}: give each GPU a `Telemetry` of its own"
)]
#[non_exhaustive]
pub struct OtherGpuError {
    /// The GPU of the telemetry.
    pub ours: String,
    /// The GPU of the recorder.
    pub theirs: String,
}

impl Recorders {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self(Mutex::new(List { first: None, known: Vec::new() }))
        }
    }

    pub(crate) fn attach(&self, source: Weak<dyn RecorderSource>) -> Result<(), OtherGpuError> {
        let Some(gpu) = source.upgrade().map(|source| source.recorder().gpu) else {
            return Ok(());
        };
        let Some(mut list) = lock_alive(&self.0) else {
            return Ok(());
        };
        list.admits(&gpu)?;
        list.first.get_or_insert_with(|| First { gpu, start_unix_ns: unix_ns() });
        list.known.push(Known::Alive(source));
        Ok(())
    }

    pub(crate) fn admits(&self, gpu: &str) -> Result<(), OtherGpuError> {
        lock_alive(&self.0).map_or(Ok(()), |list| list.admits(gpu))
    }

    /// Runs `set` while no recorder was made, and none is taken in meanwhile.
    pub(crate) fn before_the_first(
        &self,
        set: impl FnOnce() -> Result<(), LaneNamesError>,
    ) -> Result<(), LaneNamesError> {
        match lock_alive(&self.0) {
            Some(list) if list.first.is_none() => set(),
            _ => Err(LaneNamesError::TooLate),
        }
    }

    /// Keeps what `source` says now, with its names of the rows `funcs`.
    pub(crate) fn detach(
        &self,
        source: &Arc<dyn RecorderSource>,
        funcs: impl Iterator<Item = u64>,
        total_of: &dyn Fn(u64) -> GraphTotal,
    ) {
        let named = funcs.filter_map(|func| Some((func, source.name(func)?)));
        let last = ClosedRecorder {
            names: named.collect(),
            recorder: source.recorder(),
            graphs: source.graphs(total_of),
        };
        let is_source = |known: &&mut Known| match known {
            Known::Alive(weak) => std::ptr::addr_eq(weak.as_ptr(), Arc::as_ptr(source)),
            Known::Closed(_) => false,
        };
        if let Some(mut list) = lock_alive(&self.0)
            && let Some(known) = list.known.iter_mut().find(is_source)
        {
            *known = Known::Closed(Box::new(last));
        }
    }

    /// All of them at one moment.
    pub(crate) fn read(&self) -> LockedRecorders<'_> {
        LockedRecorders(lock_alive(&self.0))
    }
}

impl List {
    fn admits(&self, gpu: &str) -> Result<(), OtherGpuError> {
        match &self.first {
            Some(first) if first.gpu != gpu => {
                Err(OtherGpuError { ours: first.gpu.clone(), theirs: gpu.to_owned() })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Recorders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = lock_alive(&self.0).map(|list| list.known.len());
        f.debug_tuple("Recorders").field(&count).finish()
    }
}

/// Keeps recorders from coming and closing while a snapshot is taken.
pub(crate) struct LockedRecorders<'a>(Option<MutexGuard<'a, List>>);

impl LockedRecorders<'_> {
    fn known(&self) -> impl Iterator<Item = &Known> {
        self.0.iter().flat_map(|list| &list.known)
    }

    pub(super) fn first(&self) -> Option<&First> {
        self.0.as_ref()?.first.as_ref()
    }

    pub(super) fn recorders(&self) -> Vec<RecorderSnapshot> {
        self.known().filter_map(Known::recorder).collect()
    }

    pub(super) fn graphs(&self, total_of: &dyn Fn(u64) -> GraphTotal) -> Vec<GraphSnapshot> {
        self.known().flat_map(|known| known.graphs(total_of)).collect()
    }

    /// The name of a row, by the first that has one; none is empty.
    pub(crate) fn name(&self, func: u64) -> Option<KernelName> {
        let mut names = self.known().filter_map(|known| known.name(func));
        names.find(|name| !name.text.is_empty())
    }
}

impl Known {
    fn recorder(&self) -> Option<RecorderSnapshot> {
        match self {
            Known::Alive(source) => source.upgrade().map(|source| source.recorder()),
            Known::Closed(last) => Some(last.recorder.clone()),
        }
    }

    fn graphs(&self, total_of: &dyn Fn(u64) -> GraphTotal) -> Vec<GraphSnapshot> {
        match self {
            Known::Alive(source) => {
                source.upgrade().map_or_else(Vec::new, |source| source.graphs(total_of))
            }
            Known::Closed(last) => last.graphs.clone(),
        }
    }

    fn name(&self, func: u64) -> Option<KernelName> {
        match self {
            Known::Alive(source) => source.upgrade()?.name(func),
            Known::Closed(last) => last.names.get(&func).cloned(),
        }
    }
}
