// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorders: how they are made and closed, and what they tell of themselves.

use crate::pointers::{Out, get_or_null, text};
use crate::status::{Fault, Status, call};
use crate::telemetry::{self, Telemetry};
use crate::twins::Twins;
use crate::{ABI_VERSION, UNKNOWN};
use metrale_gpu_runtime::timing::{self, ContextRef, Driver, FuncRef, Harvest, InstallError};
use std::ffi::{c_char, c_void};
use std::time::Duration;

/// Times lanes and launches of one context. NULL is a recorder that measures nothing,
/// for a server that goes on without: every function takes it.
pub struct Recorder(timing::Recorder);

/// Options of a recorder. What is 0, false or NULL is the default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Tells recorders of one process apart; "0" by default.
    pub label: *const c_char,
    /// What stands for the GPU in metrics; by default the driver is asked.
    pub gpu: *const c_char,
    /// Lanes that may wait to be read; 1,024 by default.
    pub lane_slots: u64,
    /// Timed launches that may wait to be read; 8,192 by default.
    pub kernel_slots: u64,
    /// How often the recorder's own thread harvests; 10 ms by default.
    pub harvest_interval_ns: u64,
    /// How long `metrale_recorder_harvest` polls; 5 ms by default.
    pub harvest_budget_ns: u64,
    /// A span left open for so long is given up; 60 s by default.
    pub reclaim_after_ns: u64,
    /// No thread is started: the application calls `metrale_recorder_harvest`.
    pub harvest_explicitly: bool,
    /// Nothing is timed on the legacy default stream.
    pub refuse_legacy_streams: bool,
    /// It is not measured, at the start, what measuring costs.
    pub skip_floor: bool,
    /// The recorder makes twins of graphs, with these options. NULL: none.
    pub twins: *const Twins,
}

/// How a recorder gets on with the driver. Counts are since it was made.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The driver's status that stopped the recorder for good; 0: it runs.
    pub quarantined: u32,
    /// Polls that the driver did not allow.
    pub polls_refused: u64,
    /// Polls that took over a millisecond.
    pub slow_polls: u64,
    /// How often slow polls stopped polling for ten seconds.
    pub polling_stops: u64,
    /// Harvests that polled nothing, because polls were slow or refused.
    pub harvests_skipped: u64,
    /// The least time between two harvests now; 0 at the full rate.
    pub harvest_interval_ns: u64,
    /// Times that cannot be.
    pub invalid_times: u64,
    /// Names that found no room.
    pub names_lost: u64,
    /// How long the oldest span waits that was begun and not ended;
    /// `METRALE_UNKNOWN`: there is none.
    pub oldest_open_ns: u64,
    /// The same of those that were ended and not read: work that never ends, or a call
    /// into the driver that does not come back.
    pub oldest_closed_ns: u64,
}

/// `None`: it measures nothing.
///
/// # Safety
/// NULL, or what [`metrale_recorder_create`] gave, until it is closed.
#[inline]
pub(crate) unsafe fn recorder<'a>(
    pointer: *const Recorder,
) -> Result<Option<&'a timing::Recorder>, Fault> {
    // SAFETY: promised by the caller.
    let recorder = unsafe { get_or_null(pointer, "recorder") }?;
    Ok(recorder.map(|recorder| &recorder.0))
}

impl From<InstallError> for Fault {
    fn from(error: InstallError) -> Self {
        let status = match error {
            InstallError::Driver(_) => Status::Driver,
            InstallError::Slots { .. } | InstallError::Twins { .. } => Status::Argument,
            InstallError::Context { .. } => Status::Context,
            InstallError::OtherGpu(_) => Status::Refused,
            InstallError::Events { .. } | InstallError::Thread(_) => Status::Resources,
            _ => Status::Driver,
        };
        Fault(status, error.to_string())
    }
}

impl Config {
    /// # Safety
    /// Its texts are NULL or C strings, and its twins NULL or such options.
    unsafe fn read(&self) -> Result<timing::RecorderConfig, Fault> {
        let mut config = timing::RecorderConfig::default();
        if !self.label.is_null() {
            // SAFETY: promised by the caller.
            config.label = unsafe { text(self.label, "label") }?.to_owned();
        }
        if !self.gpu.is_null() {
            // SAFETY: the same.
            config.gpu = Some(unsafe { text(self.gpu, "gpu") }?.to_owned());
        }
        for (slots, asked) in [
            (&mut config.lane_slots, self.lane_slots),
            (&mut config.kernel_slots, self.kernel_slots),
        ] {
            if asked != 0 {
                *slots = usize::try_from(asked).unwrap_or(usize::MAX);
            }
        }
        for (time, asked) in [
            (&mut config.harvest_budget, self.harvest_budget_ns),
            (&mut config.reclaim_after, self.reclaim_after_ns),
        ] {
            if asked != 0 {
                *time = Duration::from_nanos(asked);
            }
        }
        if self.harvest_explicitly {
            config.harvest = Harvest::Explicit;
        } else if self.harvest_interval_ns != 0 {
            config.harvest = Harvest::OwnThread(Duration::from_nanos(self.harvest_interval_ns));
        }
        // SAFETY: promised by the caller.
        config.twins = unsafe { get_or_null(self.twins, "twins") }?.map(Twins::read);
        config.refuse_legacy_streams = self.refuse_legacy_streams;
        config.measure_floor = !self.skip_floor;
        Ok(config)
    }
}

/// Makes a recorder of `context` (a `CUcontext`; NULL: the one that is current on this
/// thread), whose times land in `telemetry`. Several contexts of one GPU share a
/// telemetry; another GPU has another one. Call it after the context was made and
/// before any graph is captured, with `abi` METRALE_ABI_VERSION; `config` NULL is all
/// defaults. Where it fails, `*recorder` is NULL, with which the server goes on, and
/// `metrale_last_error` says why.
///
/// # Safety
/// Any thread. `telemetry` is one that this library gave, `recorder` takes the answer,
/// and `metrale_recorder_close` is called before the context is destroyed or reset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_recorder_create(
    abi: u32,
    context: *mut c_void,
    telemetry: *const Telemetry,
    config: *const Config,
    recorder: *mut *mut Recorder,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let out = unsafe { Out::new(recorder, "recorder") }?;
        out.put(std::ptr::null_mut());
        if abi != ABI_VERSION {
            let text = format!(
                "the program is built for version {abi} of metrale.h, the library for {ABI_VERSION}; \
                 build it with the header of this library"
            );
            return Err(Fault(Status::Abi, text));
        }
        // SAFETY: promised by the caller.
        let telemetry = unsafe { telemetry::get(telemetry) }?;
        // SAFETY: the same.
        let config = match unsafe { get_or_null(config, "config") }? {
            None => timing::RecorderConfig::default(),
            // SAFETY: the same.
            Some(config) => unsafe { config.read() }?,
        };
        let driver = Driver::system().map_err(InstallError::from)?;
        let context = if context.is_null() {
            ContextRef::current(&driver)?
        } else {
            ContextRef::from_raw(context as u64)
        };
        // SAFETY: promised by the caller; the application and we use the one driver that
        // the process holds.
        let made = unsafe { timing::Recorder::from_raw(driver.into(), context, telemetry, config) };
        out.put(Box::into_raw(Box::new(Recorder(made?))));
        Ok(Status::Ok)
    })
}

/// Stops measuring, destroys the events and frees the recorder. Events are left to the
/// driver where destroying them could block or hit another context: after a status that
/// stopped the recorder, once the context was reset, at exit and in a forked child. What
/// was measured stays in the telemetry.
///
/// # Safety
/// Any thread, once, and no call with this recorder is in progress or comes later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_recorder_close(recorder: *mut Recorder) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let known = unsafe { get_or_null(recorder, "recorder") }?;
        if known.is_some() {
            // SAFETY: not NULL, so a box gave it, and nobody else has it.
            unsafe { Box::from_raw(recorder) }.0.close();
        }
        Ok(Status::Ok)
    })
}

/// Reads what the GPU has finished; `landed` (NULL: nobody asks) takes how many spans
/// that were. It never waits for the GPU, but a poll may block in the driver. Only a
/// recorder that harvests explicitly needs it.
///
/// # Safety
/// Any thread, at any time: of two at once the second does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_recorder_harvest(
    recorder: *const Recorder,
    landed: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let out = unsafe { Out::or_null(landed, "landed") }?;
        // SAFETY: the same.
        let recorder = unsafe { self::recorder(recorder) }?;
        let count = recorder.map_or(0, timing::Recorder::harvest);
        out.put(count as u64);
        Ok(Status::Ok)
    })
}

/// Reads every span that was ended, for at most `within_ns`: synchronise first, then it
/// returns as soon as all are read, later where the driver is slow. `left` (NULL: nobody asks) takes how many are not.
///
/// # Safety
/// Any thread, at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_recorder_drain(
    recorder: *const Recorder,
    within_ns: u64,
    left: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let out = unsafe { Out::or_null(left, "left") }?;
        // SAFETY: the same.
        let recorder = unsafe { self::recorder(recorder) }?;
        let within = Duration::from_nanos(within_ns);
        let count = recorder.map_or(0, |recorder| recorder.drain(within).left);
        out.put(count);
        Ok(Status::Ok)
    })
}

/// Whether the recorder may call the driver, and what it met there.
///
/// # Safety
/// Any thread, at any time, also while a harvest hangs. `health` takes the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_recorder_health(
    recorder: *const Recorder,
    health: *mut Health,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let out = unsafe { Out::new(health, "health") }?;
        // SAFETY: the same.
        let recorder = unsafe { self::recorder(recorder) }?;
        let now = recorder.map_or_else(timing::Health::default, timing::Recorder::health);
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(UNKNOWN);
        out.put(Health {
            quarantined: now.quarantined.map_or(0, |status| status.0),
            polls_refused: now.polls_refused,
            slow_polls: now.slow_polls,
            polling_stops: now.polling_stops,
            harvests_skipped: now.harvests_skipped,
            harvest_interval_ns: ns(now.harvest_interval),
            invalid_times: now.invalid_times,
            names_lost: now.names_lost,
            oldest_open_ns: now.oldest_open.map_or(UNKNOWN, ns),
            oldest_closed_ns: now.oldest_closed.map_or(UNKNOWN, ns),
        });
        Ok(Status::Ok)
    })
}

/// Names a function (a `CUfunction`, or any other address that stands for a kernel); the
/// driver is not asked for its name then. Without this it is, at its first timed launch.
///
/// # Safety
/// Any thread, at any time. `name` is a C string, which is copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_recorder_name(
    recorder: *const Recorder,
    function: *const c_void,
    name: *const c_char,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let recorder = unsafe { self::recorder(recorder) }?;
        // SAFETY: the same.
        let name = unsafe { text(name, "name") }?;
        if let Some(recorder) = recorder {
            recorder.name(FuncRef::from_raw(function as u64), name);
        }
        Ok(Status::Ok)
    })
}

/// Says, before a module is unloaded, that a function of it is gone: another kernel may
/// get its address.
///
/// # Safety
/// Any thread, at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_recorder_forget(
    recorder: *const Recorder,
    function: *const c_void,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        if let Some(recorder) = unsafe { self::recorder(recorder) }? {
            recorder.forget(FuncRef::from_raw(function as u64));
        }
        Ok(Status::Ok)
    })
}

/// The number that a name has, once `ask` was asked.
///
/// # Safety
/// As [`metrale_recorder_graph`]'s.
unsafe fn number(
    recorder: *const Recorder,
    name: *const c_char,
    number: *mut u64,
    ask: impl FnOnce(&timing::Recorder, &str) -> u64,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let out = unsafe { Out::new(number, "number") }?;
        // SAFETY: the same.
        let recorder = unsafe { self::recorder(recorder) }?;
        // SAFETY: the same.
        let name = unsafe { text(name, "name") }?;
        out.put(recorder.map_or(0, |recorder| ask(recorder, name)));
        Ok(Status::Ok)
    })
}

/// The number of the graph of that name, for `metrale_graph_begin`. The same name gives
/// the same number. Call it when the graph is made, not when it is launched: it takes a
/// lock and may allocate.
///
/// # Safety
/// Any thread, at any time. `name` is a C string, which is copied; `graph` takes the
/// answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_recorder_graph(
    recorder: *const Recorder,
    name: *const c_char,
    graph: *mut u64,
) -> Status {
    // SAFETY: promised by the caller.
    unsafe { number(recorder, name, graph, |of, name| of.graph(name).row()) }
}

/// The number of the region of that name, for `metrale_region_begin`: work without a
/// function of the application's, as library calls, collectives and sampling. As
/// `metrale_recorder_graph`: call it once.
///
/// # Safety
/// Any thread, at any time. `name` is a C string, which is copied; `region` takes the
/// answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_recorder_region(
    recorder: *const Recorder,
    name: *const c_char,
    region: *mut u64,
) -> Status {
    // SAFETY: promised by the caller.
    unsafe { number(recorder, name, region, |of, name| of.region(name).row()) }
}

/// As `metrale_recorder_region`, of copies and sets of memory.
///
/// # Safety
/// Any thread, at any time. `name` is a C string, which is copied; `region` takes the
/// answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_recorder_copy(
    recorder: *const Recorder,
    name: *const c_char,
    region: *mut u64,
) -> Status {
    // SAFETY: promised by the caller.
    unsafe { number(recorder, name, region, |of, name| of.copy(name).row()) }
}
