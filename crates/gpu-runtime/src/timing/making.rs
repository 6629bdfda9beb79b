// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a recorder is made: the configuration is checked, the events are made
//! in the context, and what was made is taken back where something fails.

use super::anchors::Anchors;
use super::config::RecorderConfig;
use super::error::InstallError;
use super::events::CudaEvents;
use super::gpu::Gpu;
use super::harvester::{DEFAULT_INTERVAL, Harvest, Harvester};
use super::health::Watch;
use super::names::Names;
use super::on_step::Handing;
use super::pace::Pace;
use super::process::{self, Busy};
use super::recorder::Recorder;
use super::shared::Shared;
use super::twin::Twins;
use super::{floor, gpu};
use metrale_gpu_sys::cuda::{CUcontext, Driver, Status};
use metrale_telemetry::kernel::SpanRing;
use metrale_telemetry::runtime::RecorderSource;
use metrale_telemetry::{Floor, Telemetry};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// A recorder whose configuration is checked.
pub(super) struct Making {
    driver: Arc<Driver>,
    context: u64,
    telemetry: &'static Telemetry,
    config: RecorderConfig,
    /// Until it is made.
    _busy: Busy,
    #[cfg(feature = "cudarc")]
    pub(super) owner: Option<Arc<cudarc::driver::CudaContext>>,
}

/// The process exits.
pub(super) const OVER: InstallError = InstallError::Context { status: Status::ERROR_DEINITIALIZED };

/// What is made, and found, while the context is current.
struct Made {
    watch: Arc<Watch>,
    anchors: Arc<Anchors>,
    lanes: CudaEvents,
    kernels: CudaEvents,
    twins: Option<Arc<Twins>>,
    context_id: Option<u64>,
    gpu: Gpu,
    floor: Option<Floor>,
}

type Pools = (Arc<Watch>, Arc<Anchors>, CudaEvents, CudaEvents);

impl Making {
    pub(super) fn new(
        driver: Arc<Driver>,
        context: u64,
        telemetry: &'static Telemetry,
        config: RecorderConfig,
    ) -> Result<Self, InstallError> {
        let rings = [("lane_slots", config.lane_slots), ("kernel_slots", config.kernel_slots)];
        for (ring, asked) in rings {
            if asked == 0 || asked > 1 << 24 {
                return Err(InstallError::Slots { ring, asked });
            }
        }
        if let Some((option, asked)) = config.twins.and_then(|twins| twins.flaw()) {
            return Err(InstallError::Twins { option, asked });
        }
        let busy = process::busy_now().ok_or(OVER)?;
        driver.device_count()?;
        // The driver is initialised: its handlers are registered, and ours come
        // after them.
        process::generation();
        Ok(Self {
            driver,
            context,
            telemetry,
            config,
            _busy: busy,
            #[cfg(feature = "cudarc")]
            owner: None,
        })
    }

    /// # Safety
    /// The context is live, and stays so until the recorder is closed.
    pub(super) unsafe fn finish(mut self) -> Result<Recorder, InstallError> {
        push(&self.driver, self.context).map_err(|status| InstallError::Context { status })?;
        // SAFETY: the context is live, and was just made current.
        let made = unsafe { self.in_context() };
        let _ = pop(&self.driver);
        let Made { watch, anchors, lanes, kernels, twins, context_id, gpu, floor } = made?;
        let Self { driver, context, telemetry, config, .. } = self;
        let ring = |pool, slots| {
            SpanRing::builder(pool, slots).reclaim_after(config.reclaim_after).clock(config.clock)
        };
        let shared = Arc::new(Shared {
            telemetry,
            driver,
            context,
            context_id,
            watch,
            anchors,
            lanes: ring(lanes.with_gaps(), config.lane_slots).gaps().build(),
            kernels: ring(kernels, config.kernel_slots).build(),
            fold: Mutex::default(),
            names: Names::new(),
            handing: (config.on_step).map(|on_step| Handing::new(on_step, telemetry)),
            twins,
            label: config.label,
            gpu,
            #[cfg(feature = "cudarc")]
            owner: self.owner,
        });
        let source: Weak<dyn RecorderSource> = Arc::<Shared>::downgrade(&shared);
        let mut recorder = Recorder { shared: Some(Arc::clone(&shared)), harvester: None };
        // Another recorder may have been first since `in_context` asked.
        if let Err(other) = telemetry.attach(source) {
            recorder.close();
            return Err(other.into());
        }
        if let Some(floor) = floor {
            telemetry.set_floor(floor);
        }
        if let Harvest::OwnThread(interval) = config.harvest {
            match Harvester::start(shared, interval) {
                Ok(harvester) => recorder.harvester = Some(harvester),
                Err(error) => {
                    recorder.close();
                    return Err(InstallError::Thread(error));
                }
            }
        }
        Ok(recorder)
    }

    /// # Safety
    /// The context is live and current on this thread.
    unsafe fn in_context(&mut self) -> Result<Made, InstallError> {
        let mut gpu = gpu::of_current_context(&self.driver);
        if let Some(given) = self.config.gpu.take() {
            gpu.id = given;
        }
        self.telemetry.admits(&gpu.id)?;
        let context_id = context_id(&self.driver, self.context).unwrap_or(None);
        // SAFETY: promised by the caller.
        let (watch, anchors, lanes, kernels) = unsafe { self.pools(context_id) }?;
        // SAFETY: promised by the caller.
        let twins = unsafe { self.twins(&lanes) }.inspect_err(|_| {
            // SAFETY: the context is current, and nobody has the pools yet.
            let _ = unsafe { destroy(&anchors, &[&lanes, &kernels]) };
        })?;
        // Last: what stops the recorder is followed by no other call but those
        // that give the thread back what it had.
        let config = &self.config;
        let floor = (config.measure_floor).then(|| floor::measure(&kernels, config.clock));
        Ok(Made {
            watch,
            anchors,
            lanes,
            kernels: kernels.with_twins(twins.clone()),
            twins,
            context_id,
            gpu,
            floor,
        })
    }

    /// # Safety
    /// The context is live and current on this thread.
    unsafe fn twins(&self, ops: &CudaEvents) -> Result<Option<Arc<Twins>>, InstallError> {
        let Some(config) = self.config.twins else {
            return Ok(None);
        };
        // SAFETY: promised by the caller.
        let twins = unsafe { Twins::new(&self.driver, config, ops) }?;
        Ok(Some(Arc::new(twins)))
    }

    /// # Safety
    /// The context is live and current on this thread.
    unsafe fn pools(&self, id: Option<u64>) -> Result<Pools, InstallError> {
        let interval = match self.config.harvest {
            Harvest::OwnThread(interval) => interval,
            Harvest::Explicit => DEFAULT_INTERVAL,
        };
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (full_ns, budget_ns) = (ns(interval), ns(self.config.harvest_budget));
        let pace = Pace::new(self.config.clock, full_ns, budget_ns);
        let watch = Arc::new(Watch::new(pace));
        let refuse_legacy = self.config.refuse_legacy_streams;
        // SAFETY: promised by the caller.
        let anchors = Arc::new(unsafe { Anchors::new(Arc::clone(&self.driver)) }?);
        let pool = |slots| {
            let (driver, watch) = (Arc::clone(&self.driver), Arc::clone(&watch));
            let anchors = Arc::clone(&anchors);
            let of = (self.context, id);
            // SAFETY: promised by the caller.
            unsafe { CudaEvents::new(driver, of, slots, anchors, watch, refuse_legacy) }
        };
        let lanes = match pool(self.config.lane_slots) {
            Ok(lanes) => lanes,
            Err(error) => {
                // SAFETY: the context is current, and nobody has them yet.
                let _ = unsafe { anchors.destroy() };
                return Err(error);
            }
        };
        match pool(self.config.kernel_slots) {
            Ok(kernels) => Ok((watch, anchors, lanes, kernels)),
            Err(error) => {
                // SAFETY: the context is current, and nobody has them yet.
                let _ = unsafe { destroy(&anchors, &[&lanes]) };
                Err(error)
            }
        }
    }
}

/// Destroys what was made, up to the first status after which no call may follow.
///
/// # Safety
/// The context is live and current on this thread, and nobody has them.
unsafe fn destroy(anchors: &Anchors, pools: &[&CudaEvents]) -> bool {
    let mut pools = pools.iter();
    // SAFETY: promised by the caller.
    let go_on = pools.all(|pool| unsafe { pool.destroy() });
    // SAFETY: the same.
    go_on && unsafe { anchors.destroy() }
}

/// Makes the recorder's context current on this thread.
pub(super) fn push(driver: &Driver, context: u64) -> Result<(), Status> {
    let status = process::unless_exiting(|| {
        // SAFETY: the context is live: its owner is kept, or the maker of a raw
        // recorder promised it.
        unsafe { (driver.api().ctx_push_current)(context as CUcontext) }
    });
    status.ok()
}

/// The context that is current on this thread.
pub(super) fn current_context(driver: &Driver) -> Result<u64, Status> {
    let _busy = process::busy_now().ok_or(Status::ERROR_DEINITIALIZED)?;
    let mut context: CUcontext = std::ptr::null_mut();
    // SAFETY: the pointer is to a live handle.
    let status = unsafe { (driver.api().ctx_get_current)(&raw mut context) };
    status.ok()?;
    if context.is_null() {
        return Err(Status::ERROR_INVALID_CONTEXT);
    }
    Ok(context as u64)
}

/// The context's number, unique for the life of the process; `None` where the
/// driver has none. A context that was reset may come back under its old
/// handle, but never under its old number.
pub(super) fn context_id(driver: &Driver, context: u64) -> Result<Option<u64>, Status> {
    let Some(get_id) = driver.api().ctx_get_id else {
        return Ok(None);
    };
    let mut id = 0;
    let status = process::unless_exiting(|| {
        // SAFETY: a live context, as for `push`, and a pointer to a live integer.
        unsafe { get_id(context as CUcontext, &raw mut id) }
    });
    status.ok().map(|()| Some(id))
}

/// Undoes [`push`]. A driver that answers with an error and gives no context
/// popped none: it is asked once more, as the thread is the application's.
/// An error: the context is still current.
pub(super) fn pop(driver: &Driver) -> Result<(), Status> {
    let try_once = || {
        let mut context: CUcontext = std::ptr::null_mut();
        let status = process::unless_exiting(|| {
            // SAFETY: the pointer is to a live handle.
            unsafe { (driver.api().ctx_pop_current)(&raw mut context) }
        });
        if context.is_null() { status.ok() } else { Ok(()) }
    };
    try_once().or_else(|_| try_once())
}
