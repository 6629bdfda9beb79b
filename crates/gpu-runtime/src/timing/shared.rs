// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the recorder and its harvest thread share: begins, ends and passes.

use super::anchors::Anchors;
use super::entry::Entry;
use super::events::CudaEvents;
use super::gpu::Gpu;
use super::handles::{KernelRef, StreamRef};
use super::health::Watch;
use super::labels::kernel_label;
use super::making::push;
use super::names::Names;
use super::on_step::Handing;
use super::twin::Twins;
use super::verdict::{Verdict, verdict};
use metrale_gpu_sys::cuda::Driver;
use metrale_telemetry::kernel::{
    EventOps, NotBegun, NotEnded, SpanKey, SpanRing, SpanTag, SpanToken, StepId,
};
use metrale_telemetry::runtime::{FOLLOWED_STEPS, Fold, unless_held};
use metrale_telemetry::snapshot::RowKind;
use metrale_telemetry::{Level, Step, Telemetry};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Any key of a ring names that ring.
pub(super) const LANE: SpanKey = SpanKey::Lane(0);
pub(super) const KERNEL: SpanKey = SpanKey::Kernel(0);

/// See the module.
pub(super) struct Shared {
    pub(super) telemetry: &'static Telemetry,
    pub(super) driver: Arc<Driver>,
    pub(super) context: u64,
    /// Tells the context from a later one with the same handle, where the
    /// driver can.
    pub(super) context_id: Option<u64>,
    pub(super) watch: Arc<Watch>,
    pub(super) anchors: Arc<Anchors>,
    pub(super) fold: Mutex<Fold>,
    pub(super) lanes: SpanRing<CudaEvents>,
    pub(super) kernels: SpanRing<CudaEvents>,
    pub(super) names: Names,
    pub(super) handing: Option<Handing>,
    pub(super) twins: Option<Arc<Twins>>,
    pub(super) label: String,
    pub(super) gpu: Gpu,
    /// Keeps the context of a cudarc recorder alive.
    #[cfg(feature = "cudarc")]
    pub(super) owner: Option<Arc<cudarc::driver::CudaContext>>,
}

/// The last owner of a context calls the driver.
#[cfg(feature = "cudarc")]
impl Drop for Shared {
    fn drop(&mut self) {
        let owner = self.owner.take();
        match self.watch.busy() {
            Some(_busy) => drop(owner),
            None => std::mem::forget(owner),
        }
    }
}

impl Shared {
    pub(super) fn harvest(&self) -> usize {
        if self.is_off() && self.is_idle() {
            return 0;
        }
        // A child makes no call and takes no lock, nor does a process that exits.
        let Some(_busy) = self.watch.busy() else {
            return 0;
        };
        let round = self.watch.pace.begin_round();
        // A silent recorder polls nothing: it gives up what is left, at once.
        if round.is_none() && !self.watch.is_silent() {
            return 0;
        }
        let landed = self.pass();
        if let Some(round) = round {
            self.watch.pace.end_round(&round);
        }
        let name_of = |row| self.names.of_row(row);
        self.telemetry.promote_kernels(name_of, kernel_label);
        landed
    }

    /// As [`harvest`](Self::harvest), and hands on the records that there are then.
    pub(super) fn harvest_and_hand_on(&self) -> usize {
        let landed = self.harvest();
        self.hand_on();
        landed
    }

    /// Whether no span is in flight, no launch of a twin unread, and no step that
    /// ended waits to be folded.
    pub(super) fn is_idle(&self) -> bool {
        let (table, newest) = (&self.anchors.table, self.telemetry.newest_track());
        let mut entries = (0..FOLLOWED_STEPS).filter(|entry| table.used() >> entry & 1 == 1);
        let mut waits = || {
            entries.any(|entry| {
                let standing = table.standing(entry, newest);
                standing.is_some_and(|standing| standing.closed)
            })
        };
        let is_read = self.twins.as_ref().is_none_or(|twins| twins.is_at_rest());
        let is_landed = self.lanes.is_idle() && self.kernels.is_idle() && is_read;
        is_landed && (table.is_idle() || !waits())
    }

    fn pass(&self) -> usize {
        // Another harvest of this recorder is on its way.
        let Some(mut fold) = unless_held(self.fold.try_lock()) else {
            return 0;
        };
        let mut folding = fold.harvest(&self.anchors.table, self.telemetry.instruments());
        let lanes = folding.pass(&self.lanes);
        let kernels = folding.pass(&self.kernels);
        if let Some(twins) = &self.twins {
            twins.read(self.kernels.ops(), self.telemetry);
        }
        let floor = self.telemetry.floor();
        folding.finish(self.telemetry.newest_track(), floor.pair_ns);
        self.watch.pace.pass_over();
        lanes + kernels
    }

    /// Folds the steps that still wait, as incomplete: the recorder is over.
    pub(super) fn give_up_steps(&self) {
        if let Some(mut fold) = unless_held(self.fold.try_lock()) {
            let folding = fold.harvest(&self.anchors.table, self.telemetry.instruments());
            folding.give_up();
        }
    }

    /// `wall`: from the step's begin to its end, where that was measured.
    pub(super) fn end_step(&self, step: Step, wall: Option<Range<u64>>) {
        if let Some(track) = step.track() {
            self.anchors.table.close(track);
        }
        self.telemetry.close_step(step, wall);
    }

    /// `began_ns`: host time of the step's begin, where it was measured.
    #[inline]
    pub(super) fn end_step_since(&self, step: Step, began_ns: Option<u64>) {
        let took_ns = self.since(began_ns);
        let wall = (began_ns.zip(took_ns))
            .map(|(began_ns, took_ns)| began_ns..began_ns.saturating_add(took_ns));
        self.end_step(step, wall);
        if let Some(took_ns) = took_ns {
            self.telemetry.host().step_wall.observe(took_ns);
        }
    }

    /// Whether nothing is to be measured.
    #[inline]
    pub(super) fn is_off(&self) -> bool {
        self.telemetry.level() == Level::Off
    }

    /// Host nanoseconds since `began_ns`, if there was a begin and the level is
    /// not `Off` now.
    #[inline]
    pub(super) fn since(&self, began_ns: Option<u64>) -> Option<u64> {
        let began_ns = began_ns.filter(|_| !self.is_off())?;
        Some(self.telemetry.now_ns().saturating_sub(began_ns))
    }

    /// Makes the context current on a thread of our own, for good.
    pub(super) fn enter_context(&self) {
        if self.watch.is_silent() {
            return;
        }
        // Where it fails for another reason, the calls that mind say so.
        if let Err(status) = push(&self.driver, self.context)
            && verdict(status) == Verdict::Quarantine
        {
            self.watch.quarantine(status);
        }
    }

    #[inline]
    pub(super) fn begin_lane(
        &self,
        step: Step,
        lane: usize,
        stream: StreamRef<'_>,
    ) -> Option<SpanToken> {
        if self.telemetry.level() != Level::Kernel {
            return None;
        }
        if lane >= self.telemetry.lanes() {
            self.refuse(&self.lanes, step, None);
            return None;
        }
        self.begin(SpanKey::Lane(lane), step, Some(lane), stream)
    }

    /// Begins a launch or a region that ends by its token, if that is to be timed;
    /// a launch is counted at once.
    pub(super) fn begin_token(
        &self,
        kernel: KernelRef<'_>,
        step: Step,
        lane: usize,
        stream: StreamRef<'_>,
    ) -> Option<SpanToken> {
        self.count_launch(kernel);
        let telemetry = self.telemetry;
        let is_timed = step.is_armed()
            || (step.number().is_some() && telemetry.spreads() && telemetry.sample_launch());
        if is_timed { self.begin_launch(kernel, step, lane, stream) } else { None }
    }

    /// As [`begin_token`](Self::begin_token), where there are neither steps nor lanes.
    pub(super) fn begin_without_lane(
        &self,
        kernel: KernelRef<'_>,
        stream: StreamRef<'_>,
    ) -> Option<SpanToken> {
        self.count_launch(kernel);
        if self.telemetry.spreads() && self.telemetry.sample_launch() {
            self.count_sampled(kernel);
            self.begin_sampled(kernel, Step::UNMEASURED, None, stream)
        } else {
            None
        }
    }

    fn count_launch(&self, kernel: KernelRef<'_>) {
        match kernel.kind() {
            RowKind::Kernel => self.telemetry.host().launched(1, 0),
            RowKind::Graph => self.telemetry.host().launched(0, 1),
            _ => {}
        }
    }

    fn count_sampled(&self, kernel: KernelRef<'_>) {
        if kernel.kind() != RowKind::Region {
            self.telemetry.count_sampled_launch();
        }
    }

    /// Begins a launch or a region that was chosen to be timed.
    pub(super) fn begin_launch(
        &self,
        kernel: KernelRef<'_>,
        step: Step,
        lane: usize,
        stream: StreamRef<'_>,
    ) -> Option<SpanToken> {
        if self.telemetry.level() != Level::Kernel {
            return None;
        }
        self.count_sampled(kernel);
        if lane >= self.telemetry.lanes() {
            self.refuse(&self.kernels, step, None);
            return None;
        }
        self.begin_sampled(kernel, step, Some(lane), stream)
    }

    fn begin_sampled(
        &self,
        kernel: KernelRef<'_>,
        step: Step,
        lane: Option<usize>,
        stream: StreamRef<'_>,
    ) -> Option<SpanToken> {
        let row = match self.names.row(kernel) {
            Some(row) => row,
            None => self.meet(kernel, (step, lane), stream)?,
        };
        self.begin(SpanKey::Kernel(row), step, lane, stream)
    }

    /// Apart from its callers, which below level `Kernel` are one load.
    #[inline(never)]
    fn begin(
        &self,
        key: SpanKey,
        step: Step,
        lane: Option<usize>,
        stream: StreamRef<'_>,
    ) -> Option<SpanToken> {
        let ring = self.ring(key);
        let _entry = Entry::of(stream, ring.ops());
        let stream = stream.number_in(self.context);
        let tag = |id| SpanTag { lane, armed: step.is_armed(), step: id };
        if let SpanKey::Lane(_) = key {
            self.telemetry.enter_lane(step);
        }
        let begun = if step.track().is_none() {
            ring.begin_tagged(key, tag(step.id()), stream)
        } else if ring.ops().admits(stream) {
            let id = self.anchors.enter(step, ring.ops(), stream);
            let begun = ring.begin_admitted(key, tag(id), stream);
            if begun.is_err() {
                self.lose(id, lane);
            }
            begun
        } else {
            self.refuse(ring, step, lane);
            Err(NotBegun::Refused)
        };
        begun.inspect_err(|why| self.not_begun(key, step, *why)).ok()
    }

    #[cold]
    fn not_begun(&self, key: SpanKey, step: Step, why: NotBegun) {
        self.telemetry.instruments().count_not_begun(key, why);
        if let (SpanKey::Lane(_), Some(number)) = (key, step.number()) {
            self.telemetry.leave_lane(number, true);
        }
    }

    /// Counts a span of `step` that is not begun: what it would have timed is
    /// missing from the step.
    #[cold]
    pub(super) fn refuse(&self, ring: &SpanRing<CudaEvents>, step: Step, lane: Option<usize>) {
        ring.refuse();
        if let Some(track) = step.track() {
            self.anchors.table.miss(track, lane);
        }
    }

    pub(super) fn end(&self, key: SpanKey, token: SpanToken, stream: StreamRef<'_>) {
        let ring = self.ring(key);
        let _entry = Entry::of(stream, ring.ops());
        let stream = stream.number_in(self.context);
        let ended = ring.end_span(token, stream);
        if ended.is_err() {
            ring.ops().replay_lost(token.slot());
        }
        if let Err(NotEnded::Failed(lost)) = ended {
            self.telemetry.instruments().count_failed(lost.key);
            self.leave_lane(lost.key, lost.tag.step, true);
            self.lose(lost.tag.step, lost.tag.lane);
        }
    }

    pub(super) fn cancel(&self, key: SpanKey, token: SpanToken) {
        if let Some(tag) = self.ring(key).cancel(token) {
            self.leave_lane(key, tag.step, false);
            if let StepId::Track(track) = tag.step {
                self.anchors.table.withdraw(track);
            }
        }
    }

    /// Before the step's track is given up, which knows its number.
    fn leave_lane(&self, key: SpanKey, step: StepId, lost: bool) {
        let number = match step {
            StepId::Number(number) => Some(number),
            StepId::Track(track) => self.anchors.table.number(track),
            StepId::Unknown => None,
        };
        if let (SpanKey::Lane(_), Some(number)) = (key, number) {
            self.telemetry.leave_lane(number, lost);
        }
    }

    #[cold]
    fn lose(&self, step: StepId, lane: Option<usize>) {
        if let StepId::Track(track) = step {
            self.anchors.table.lose(track, lane);
        }
    }

    fn ring(&self, key: SpanKey) -> &SpanRing<CudaEvents> {
        match key {
            SpanKey::Lane(_) => &self.lanes,
            SpanKey::Kernel(_) => &self.kernels,
        }
    }
}
