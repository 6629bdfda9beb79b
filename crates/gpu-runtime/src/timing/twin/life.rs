// SPDX-License-Identifier: MIT OR Apache-2.0
//! A twin: made, renewed, kept up with its graph, and taken down.

use super::calls::Workplace;
use super::error::TwinError;
use super::graphs::Nodes;
use super::marked::Marked;
use super::raw::RawGraph;
use super::replay::Last;
use super::seats::{Seat, State, Twins};
use crate::timing::handles::GraphRef;
use crate::timing::recorder::Recorder;
use crate::timing::shared::Shared;
use metrale_gpu_sys::cuda::CUstream;
use metrale_telemetry::snapshot::TwinLedger;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Whether the application changes the executable after it was made
/// (`cuGraphExecUpdate`, `cuGraphExecKernelNodeSetParams`, …).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updates {
    /// Never. One all the same makes the twin compute with old parameters, which
    /// nothing can see.
    Never,
    /// Through [`Twin::follow`], or a [`Twin::replace`] after each.
    Told,
}

/// Whether there is a twin to launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TwinState {
    /// There is.
    Ready,
    /// There never was.
    Refused(TwinError),
    /// An update was not taken by the twin, or it is not instantiated anew yet.
    Stale,
    /// There was.
    Retired(TwinError),
}

/// Keeps a value until it is dropped.
trait Keep {}
impl<T> Keep for T {}

/// A graph of the application with a second executable that has marks. It stays on
/// its thread, as the graph has to.
///
/// It is good without a twin too: then every replay launches the plain executable.
/// What makes or destroys graph objects does so at once, on this thread: its making,
/// [`renew`](Self::renew), [`replace`](Self::replace_raw), [`retire`](Self::retire)
/// and its drop. Call them between steps. Drop it when its launches are over, as you
/// would destroy the graph: afterwards nothing makes a launch on another stream wait.
///
/// ```
/// use metrale_gpu_runtime::timing::{LaneGuard, RawGraph, Recorder, Twin, TwinState, Updates};
/// # fn example(recorder: &Recorder, graph: RawGraph, lane: &LaneGuard<'_>) {
/// // SAFETY: graph and executable outlive the twin, and stay on this thread.
/// let twin = unsafe { recorder.twin_raw(graph, "decode, 8 requests", Updates::Never) };
/// if let TwinState::Refused(why) = twin.state() {
///     eprintln!("no rows inside the graph: {why}");
/// }
/// let launched = lane.replay(&twin);
/// # }
/// ```
///
/// ```compile_fail
/// fn assert_send<T: Send>() {}
/// assert_send::<metrale_gpu_runtime::timing::Twin<'static>>();
/// ```
pub struct Twin<'g> {
    shared: Option<Arc<Shared>>,
    pub(super) row: GraphRef,
    updates: Updates,
    pub(super) source: Cell<RawGraph>,
    pub(super) state: Cell<TwinState>,
    pub(super) last: Last,
    pub(super) seat: Cell<Option<usize>>,
    pub(super) exec: Cell<Option<u64>>,
    /// Launches until the plan is spent.
    pub(super) plan_left: Cell<u32>,
    /// Nodes that are reckoned with in the budget.
    booked: Cell<usize>,
    parts: RefCell<Option<Parts>>,
    /// Goes after all else, and makes the twin stay on its thread.
    _graph: Option<Box<dyn Keep + 'g>>,
}

/// What is made of a graph.
struct Parts {
    copy: Marked,
    /// Its place among the recorder's graphs.
    graph: usize,
    /// It has no executable yet.
    is_new: bool,
    /// The executable was updated since, and the clone has the old parameters: a
    /// second executable of it would be stale.
    is_behind: bool,
}

impl Recorder {
    /// A twin of a graph, which it owns or borrows, under the graph's name (see
    /// [`graph`](Self::graph)). It is made at once, on this thread: see [`Twin`]. The
    /// executable was not updated before: the twin would have the graph's parameters.
    #[cfg(feature = "cudarc-graph")]
    pub fn twin<'g>(
        &self,
        graph: impl std::borrow::Borrow<cudarc::driver::CudaGraph> + 'g,
        name: &str,
        updates: Updates,
    ) -> Twin<'g> {
        let source = RawGraph::from(graph.borrow());
        let mut twin = Twin::new(self, source, name, updates);
        twin._graph = Some(Box::new(graph));
        twin
    }

    /// As `twin`, of raw handles.
    ///
    /// # Safety
    /// Graph and executable are live ones of the recorder's context and outlive the
    /// twin, as does the context; no other thread uses them meanwhile. `launch` is
    /// the driver's.
    pub unsafe fn twin_raw(&self, graph: RawGraph, name: &str, updates: Updates) -> Twin<'static> {
        Twin::new(self, graph, name, updates)
    }

    /// What became of replays on armed steps; see [`LaneGuard::replay`](super::super::LaneGuard::replay).
    #[must_use]
    pub fn twin_ledger(&self) -> TwinLedger {
        let twins = self.shared().and_then(|shared| shared.twins.as_deref());
        twins.map_or_else(TwinLedger::default, |twins| twins.counts.read())
    }
}

impl Twin<'_> {
    fn new(recorder: &Recorder, source: RawGraph, name: &str, updates: Updates) -> Self {
        let twins = recorder.shared().and_then(|shared| shared.twins.as_deref());
        let twin = Self {
            shared: recorder.shared.clone(),
            row: recorder.graph(name),
            updates,
            source: Cell::new(source),
            state: Cell::new(TwinState::Stale),
            last: Last::none(twins.is_some_and(|twins| twins.config.always)),
            seat: Cell::new(None),
            exec: Cell::new(None),
            plan_left: Cell::new(0),
            booked: Cell::new(0),
            parts: RefCell::new(None),
            _graph: None,
        };
        if let Err(error) = twin.make(source.graph) {
            twin.end(TwinState::Refused(error));
        }
        twin
    }

    /// Whether there is a twin to launch.
    #[must_use]
    pub fn state(&self) -> TwinState {
        self.state.get()
    }

    pub(super) fn recorder(&self) -> Option<(&Shared, &Twins)> {
        let shared = self.shared.as_deref()?;
        Some((shared, shared.twins.as_deref()?))
    }

    /// Clones `graph`, takes a seat, and makes the executable.
    fn make(&self, graph: u64) -> Result<(), TwinError> {
        let shared = self.shared.as_deref().ok_or(TwinError::Silent)?;
        let twins = shared.twins.as_deref().ok_or(TwinError::Off)?;
        let at = Workplace::open(shared)?;
        let source = RawGraph { graph, ..self.source.get() };
        let is_told = self.updates == Updates::Told;
        let (copy, read) = Marked::new(&at, &source, (twins.config.nodes, is_told))?;
        // From here on `end` takes it back.
        self.parts.replace(Some(Parts { copy, graph: usize::MAX, is_new: true, is_behind: false }));
        let nodes = read.nodes.len();
        twins.book(self.booked.replace(0), nodes)?;
        self.booked.set(nodes);
        if self.seat.get().is_none() {
            self.seat.set(Some(twins.take()?));
        }
        let nodes = Nodes::new(&at, shared, &read)?;
        let options = (twins.config.marks, shared.telemetry.config().seed);
        let graph = twins.graphs.meet(self.row.row(), nodes, options)?;
        if let Some(parts) = &mut *self.parts.borrow_mut() {
            parts.graph = graph;
        }
        self.instantiate(&at, twins)
    }

    /// Makes an executable of the next plan, unless the last one's marks are still
    /// to be recorded or read.
    fn instantiate(&self, at: &Workplace<'_>, twins: &Twins) -> Result<(), TwinError> {
        let mut parts = self.parts.borrow_mut();
        let seat = self.seat.get().and_then(|seat| twins.seat(seat));
        let (Some(parts), Some(seat)) = (&mut *parts, seat) else {
            return Ok(());
        };
        if !matches!(seat.state(), State::Taken | State::Ready) {
            return Ok(());
        }
        self.exec.set(None);
        let plan = twins.graphs.plan(parts.graph).ok_or(TwinError::NoShape)?;
        let (marks, stream) = (plan.marks(), twins.stream as CUstream);
        parts.copy.instantiate(at, marks, seat.events(), stream)?;
        self.plan_left.set(if plan.is_complete() { u32::MAX } else { twins.config.plan_launches });
        parts.is_new = false;
        seat.load(parts.graph, plan);
        self.exec.set(parts.copy.exec());
        self.state.set(TwinState::Ready);
        Ok(())
    }

    /// Makes the executable of the next plan where the last one is spent, or of a
    /// graph that was [replaced](Self::replace_raw). Until then the plain executable
    /// is launched. It costs an instantiation then, and a look otherwise: call it
    /// between steps, as often as you like. A twin that followed an update keeps its
    /// plan.
    pub fn renew(&self) {
        let Some((shared, twins)) = self.recorder() else {
            return;
        };
        // Its launch failed, or cannot be read: the objects go here.
        let state = self.state.get();
        if let TwinState::Retired(_) = state
            && self.parts.borrow().is_some()
        {
            return self.end(state);
        }
        let is_due = self.parts.borrow().as_ref().is_some_and(|parts| {
            let is_spent = state == TwinState::Ready && self.plan_left.get() == 0;
            let is_waiting = state == TwinState::Stale && parts.is_new;
            !parts.is_behind && (is_spent || is_waiting)
        });
        if !is_due {
            return;
        }
        let made = Workplace::open(shared).and_then(|at| self.instantiate(&at, twins));
        if let Err(error) = made {
            self.end(TwinState::Retired(error));
        }
    }

    /// Makes the twin anew, of a graph by which the application updated its
    /// executable as a whole (`cuGraphExecUpdate`). Call it before the next replay.
    #[cfg(feature = "cudarc-graph")]
    pub fn replace(&self, graph: &cudarc::driver::CudaGraph) {
        self.remake(graph.cu_graph() as u64);
    }

    /// As `replace`, of a raw handle.
    ///
    /// # Safety
    /// The graph is a live one of the recorder's context, and no other thread uses it
    /// now.
    pub unsafe fn replace_raw(&self, graph: u64) {
        self.remake(graph);
    }

    fn remake(&self, graph: u64) {
        self.exec.set(None);
        self.state.set(TwinState::Stale);
        self.destroy_parts();
        let seat = self.seat.get();
        if let Some((_, twins)) = self.recorder()
            && let Some(at) = seat
            && twins.seat(at).map(Seat::state) == Some(State::Lost)
        {
            self.seat.set(None);
        }
        if let Err(error) = self.make(graph) {
            self.end(TwinState::Refused(error));
        }
    }

    /// Runs an update of the executable's nodes for the plain one and for the twin.
    /// `update` gets the executable, and what gives the node to pass for one of the
    /// graph. The result is that of the plain one. Where the twin does not take the
    /// update it is stale, and launched no more until it is replaced.
    ///
    /// # Errors
    /// Those of `update` for the plain executable.
    pub fn follow<T, E>(
        &self,
        mut update: impl FnMut(u64, &dyn Fn(u64) -> u64) -> Result<T, E>,
    ) -> Result<T, E> {
        let done = update(self.source.get().exec, &|node| node);
        let mut parts = self.parts.borrow_mut();
        let Some(parts) = &mut *parts else {
            return done;
        };
        parts.is_behind = true;
        self.plan_left.set(u32::MAX);
        let exec = self.exec.get().filter(|_| self.state.get() == TwinState::Ready);
        let node_of = |node| parts.copy.node_of(node).unwrap_or_default();
        let is_taken = done.is_ok() && exec.is_some_and(|exec| update(exec, &node_of).is_ok());
        if self.state.get() == TwinState::Ready && !is_taken {
            self.state.set(TwinState::Stale);
            if let Some((_, twins)) = self.recorder() {
                twins.counts.updates_failed.add(1);
            }
        }
        done
    }

    /// Takes the twin down: its graph objects let go of what they hold, as they must
    /// before a communicator is destroyed whose kernels are in the graph. From now on
    /// replays launch the plain executable.
    pub fn retire(&self) {
        self.end(TwinState::Retired(TwinError::Retired));
    }

    /// Takes back what was made. A launch in flight goes on, and is read.
    fn end(&self, state: TwinState) {
        self.state.set(state);
        self.exec.set(None);
        self.destroy_parts();
        // In a forked child a thread of the parent may hold the seat's lock.
        let recorder = self.recorder();
        if let Some((_, twins)) = recorder.filter(|(shared, _)| !shared.watch.is_over()) {
            twins.unbook(self.booked.replace(0));
            if let Some(seat) = self.seat.take().and_then(|seat| twins.seat(seat)) {
                seat.leave();
            }
        }
    }

    fn destroy_parts(&self) {
        let parts = self.parts.take();
        if let (Some(mut parts), Some(shared)) = (parts, self.shared.as_deref())
            && let Some(at) = Workplace::reopen(shared)
        {
            parts.copy.destroy(&at);
        }
    }
}

impl Drop for Twin<'_> {
    fn drop(&mut self) {
        self.end(self.state.get());
    }
}

impl std::fmt::Debug for Twin<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Twin")
            .field("row", &self.row)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
