// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder: two rings over one context, and who harvests them.

use super::config::RecorderConfig;
use super::error::InstallError;
use super::gpu::UNKNOWN;
use super::guards::StepGuard;
use super::handles::{ContextRef, KernelRef, StreamRef};
use super::harvester::Harvester;
use super::health::Health;
use super::making::{Making, context_id, pop, push};
use super::shared::{KERNEL, LANE, Shared};
use metrale_gpu_sys::cuda::Driver;
use metrale_telemetry::kernel::{Ledger, SpanToken};
use metrale_telemetry::runtime::RecorderSource;
use metrale_telemetry::snapshot::OldestSpanSnapshot;
use metrale_telemetry::{Level, Step, Telemetry};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// Times lanes and kernels of one context. See the crate's page for what it
/// promises its host, and for an example.
///
/// A server whose recorder could not be made serves on with one that measures
/// nothing, which is what `default` makes:
///
/// ```
/// # use metrale_gpu_runtime::timing::{InstallError, Recorder};
/// # let made: Result<Recorder, InstallError> = Ok(Recorder::disabled());
/// let recorder = made.inspect_err(|error| eprintln!("not timed: {error}")).unwrap_or_default();
/// ```
#[derive(Default)]
pub struct Recorder {
    /// `None`: it measures nothing.
    pub(super) shared: Option<Arc<Shared>>,
    pub(super) harvester: Option<Harvester>,
}

impl Recorder {
    /// A recorder for a cudarc context, which it keeps alive.
    ///
    /// # Errors
    /// See [`InstallError`]; nothing is left behind.
    #[cfg(feature = "cudarc")]
    pub fn new(
        context: &Arc<cudarc::driver::CudaContext>,
        telemetry: &'static Telemetry,
        config: RecorderConfig,
    ) -> Result<Self, InstallError> {
        let busy = super::process::busy_now().ok_or(super::making::OVER)?;
        let driver = Arc::new(Driver::system()?);
        drop(busy);
        let mut making = Making::new(driver, context.cu_ctx() as u64, telemetry, config)?;
        making.owner = Some(Arc::clone(context));
        // SAFETY: the context lives as long as its owner, which the recorder
        // keeps; cudarc and we use the one driver that the process holds.
        unsafe { making.finish() }
    }

    /// A recorder for a raw context of `driver`.
    ///
    /// # Errors
    /// See [`InstallError`]; nothing is left behind.
    ///
    /// # Safety
    /// `context` is a live one of that driver, and [`close`](Self::close)
    /// is called before it is destroyed or reset.
    pub unsafe fn from_raw(
        driver: Arc<Driver>,
        context: ContextRef,
        telemetry: &'static Telemetry,
        config: RecorderConfig,
    ) -> Result<Self, InstallError> {
        let making = Making::new(driver, context.handle(), telemetry, config)?;
        // SAFETY: promised by the caller.
        unsafe { making.finish() }
    }

    /// A recorder that measures nothing, and needs no driver. All of it works,
    /// each call costs one branch, and what it reads is empty.
    ///
    /// ```
    /// use metrale_gpu_runtime::timing::Recorder;
    /// let recorder = Recorder::disabled();
    /// assert!(recorder.is_disabled() && !recorder.step().is_armed());
    /// ```
    #[must_use]
    pub fn disabled() -> Self {
        Self::default()
    }

    /// Whether it measures nothing, from its making on.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        self.shared.is_none()
    }

    #[inline]
    pub(super) fn shared(&self) -> Option<&Shared> {
        self.shared.as_deref()
    }

    /// Begins a serving step on this thread.
    pub fn step(&self) -> StepGuard<'_> {
        StepGuard::new(self.shared())
    }

    /// Begins a lane of `step` as a token, for a span that another thread ends
    /// or that no scope encloses. `None`: nothing is timed. The host's wall time
    /// of such a lane is not measured. An index that is no lane's is refused, and
    /// counted in [`Ledger::refused`].
    pub fn begin_lane<'a>(
        &self,
        step: Step,
        lane: usize,
        stream: impl Into<StreamRef<'a>>,
    ) -> Option<SpanToken> {
        self.shared()?.begin_lane(step, lane, stream.into())
    }

    /// Ends a lane on `stream`. A token that names no open lane is counted.
    pub fn end_lane<'a>(&self, token: SpanToken, stream: impl Into<StreamRef<'a>>) {
        if let Some(shared) = self.shared() {
            shared.end(LANE, token, stream.into());
        }
    }

    /// Gives up a lane that will not be ended.
    pub fn cancel_lane(&self, token: SpanToken) {
        if let Some(shared) = self.shared() {
            shared.cancel(LANE, token);
        }
    }

    /// Begins a launch of a kernel or a graph in a lane of `step` as a token.
    /// `None`: neither the step is armed nor the launch chosen by itself, or no
    /// span can be had; one that would be timed in a lane that is not there is
    /// refused ([`Ledger::refused`]). See [`LaneGuard::launch`](super::LaneGuard::launch)
    /// for what it costs. From level `Basic` on the launch is counted at once,
    /// also where it fails later: one read-modify-write.
    pub fn begin_launch<'a, 'f>(
        &self,
        step: Step,
        lane: usize,
        kernel: impl Into<KernelRef<'f>>,
        stream: impl Into<StreamRef<'a>>,
    ) -> Option<SpanToken> {
        let shared = self.shared().filter(|shared| !shared.is_off())?;
        shared.begin_token(kernel.into(), step, lane, stream.into())
    }

    /// Ends a launch on `stream`. A token that names no open launch is counted.
    pub fn end_launch<'a>(&self, token: SpanToken, stream: impl Into<StreamRef<'a>>) {
        if let Some(shared) = self.shared() {
            shared.end(KERNEL, token, stream.into());
        }
    }

    /// Gives up a launch that failed.
    pub fn cancel_launch(&self, token: SpanToken) {
        if let Some(shared) = self.shared() {
            shared.cancel(KERNEL, token);
        }
    }

    /// Ends a step that has no guard: spans that begin in it from here on are
    /// timed, and are none of it. A harvest lays an armed step out in time once
    /// it was ended and its spans have landed. One that nobody ends counts as
    /// ended when four later armed ones were begun. Several recorders of one step
    /// end it each.
    pub fn end_step(&self, step: Step) {
        if let Some(shared) = self.shared() {
            shared.end_step(step, None);
        }
    }

    /// As [`end_step`](Self::end_step), of a step that began at `began_ns` by the
    /// [telemetry's clock](Telemetry::now_ns): its wall time is counted too, as a
    /// guard's is.
    pub fn end_step_since(&self, step: Step, began_ns: u64) {
        if let Some(shared) = self.shared() {
            shared.end_step_since(step, Some(began_ns));
        }
    }

    /// Lands what the GPU has finished, and returns how many spans that were: 0
    /// too while another thread harvests ([`drain`](Self::drain) lands all);
    /// armed steps that are over are laid out in time. It never waits for the
    /// GPU, but a poll may block inside the driver; on a thread of the
    /// application it polls for [`RecorderConfig::harvest_budget`]. A span waits
    /// too while the GPU has not reached its step's first one. Where polls are slow
    /// or refused, some calls poll nothing and return 0
    /// ([`Health::harvests_skipped`]); so does every one at level `Off` once no
    /// span is in flight and each step that ended is laid out, and it is no pass
    /// then. Once a second, while metrics are exported, it also looks through the
    /// kernels for those that get series of their own: 14 µs for 113 kernels,
    /// 0.3 ms for 512.
    pub fn harvest(&self) -> usize {
        self.shared().map_or(0, Shared::harvest_and_hand_on)
    }

    /// The driver that is used; `None` where nothing is measured.
    #[must_use]
    pub fn driver(&self) -> Option<&Driver> {
        self.shared().map(|shared| &*shared.driver)
    }

    /// The telemetry that spans land in. Where nothing is measured, an empty one at
    /// level `Off`.
    #[must_use]
    pub fn telemetry(&self) -> &'static Telemetry {
        static EMPTY: LazyLock<&'static Telemetry> = LazyLock::new(|| {
            let empty = Telemetry::new().leak();
            empty.set_level(Level::Off);
            empty
        });
        self.shared().map_or_else(|| *EMPTY, |shared| shared.telemetry)
    }

    /// What tells this recorder apart; empty where nothing is measured.
    #[must_use]
    pub fn label(&self) -> &str {
        self.shared().map_or("", |shared| &shared.label)
    }

    /// The GPU: `GPU-` and its UUID, as in
    /// `GPU-00112233-4455-6677-8899-aabbccddeeff`, or `MIG-` and the UUID of an
    /// instance; `unknown` where the driver does not tell, or nothing is measured;
    /// or what [`RecorderConfig::gpu`] says.
    #[must_use]
    pub fn gpu(&self) -> &str {
        self.shared().map_or(UNKNOWN, |shared| &shared.gpu.id)
    }

    /// The GPU's model, as the driver names it.
    #[must_use]
    pub fn gpu_name(&self) -> Option<&str> {
        self.shared()?.gpu.name.as_deref()
    }

    /// Whether the recorder may call the driver, and what it met there. It looks
    /// at every slot, and waits for no harvest.
    #[must_use]
    pub fn health(&self) -> Health {
        self.shared().map_or_else(Health::default, Shared::health)
    }

    /// The spans that wait longest: of each ring the open and the closed one that
    /// were begun first, with their names. It looks at every slot, and waits for
    /// no harvest.
    #[must_use]
    pub fn oldest_spans(&self) -> Vec<OldestSpanSnapshot> {
        self.shared().map_or_else(Vec::new, Shared::oldest_spans)
    }

    /// What became of the lane spans.
    #[must_use]
    pub fn lane_ledger(&self) -> Ledger {
        self.shared().map_or_else(Ledger::default, |shared| shared.lanes.ledger())
    }

    /// What became of the kernel spans.
    #[must_use]
    pub fn kernel_ledger(&self) -> Ledger {
        self.shared().map_or_else(Ledger::default, |shared| shared.kernels.ledger())
    }

    /// Stops measuring and destroys the events. They are leaked where the
    /// harvest thread hangs in the driver, after a quarantine, once the context
    /// was reset or where the driver cannot tell (before 12.0), at exit and in a
    /// forked child. One that is shared in an [`Arc`] is closed by its last owner,
    /// who has it from [`Arc::into_inner`].
    pub fn close(mut self) {
        let is_alone = self.stop();
        let Some(shared) = &self.shared else {
            return;
        };
        let Some(_busy) = shared.watch.busy() else {
            return;
        };
        if !is_alone
            || shared.watch.is_quarantined()
            // One that flies records its marks, and may be waited for.
            || shared.twins.as_ref().is_some_and(|twins| !twins.may_destroy())
            || push(&shared.driver, shared.context).is_err()
        {
            return;
        }
        let id = context_id(&shared.driver, shared.context);
        if shared.context_id.is_some() && id == Ok(shared.context_id) {
            // SAFETY: as for the pools, below.
            let go_on = unsafe { shared.anchors.destroy() };
            // SAFETY: the same; no twin is launched once the watch is closed, and
            // none is in flight.
            let go_on = go_on
                && shared
                    .twins
                    .as_ref()
                    .is_none_or(|twins| unsafe { twins.destroy(&shared.driver) });
            let _ = go_on
                && [&shared.lanes, &shared.kernels].into_iter().all(|ring| {
                    // SAFETY: the context was just made current; guards borrow the
                    // recorder, and its thread has ended: nobody uses the pool.
                    unsafe { ring.ops().destroy() }
                });
        }
        let _ = pop(&shared.driver);
    }

    /// Stops measuring; whether nobody else uses the pools now.
    fn stop(&mut self) -> bool {
        let Some(shared) = &self.shared else {
            return true;
        };
        shared.watch.close();
        let harvester = self.harvester.take();
        if shared.watch.is_over() {
            // The thread was not forked, or runs on until the exit is done: it
            // must not be joined, and nothing of what is shared may go.
            std::mem::forget(harvester);
            std::mem::forget(Arc::clone(shared));
            return false;
        }
        let is_alone = harvester.is_none_or(Harvester::stop);
        shared.give_up_steps();
        shared.hand_on();
        let source: Arc<dyn RecorderSource> = Arc::<Shared>::clone(shared);
        shared.telemetry.detach(&source);
        is_alone
    }
}

impl Drop for Recorder {
    /// Stops the harvest thread and leaks the events: destroying can block.
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(shared) = self.shared() else {
            return f.write_str("Recorder(disabled)");
        };
        f.debug_struct("Recorder")
            .field("label", &shared.label)
            .field("driver", &shared.driver)
            .field("lanes", &shared.lanes)
            .field("kernels", &shared.kernels)
            .field("health", &self.health())
            .finish_non_exhaustive()
    }
}
