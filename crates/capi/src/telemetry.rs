// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is measured, how much of it, and what it reads.

use crate::pointers::{Out, list, text};
use crate::status::{Fault, Status, c_string, call};
use metrale_telemetry::export::{self, MetraleCollector};
use metrale_telemetry::{self as core, LaneNamesError, TelemetryConfig};
use std::ffi::{CString, c_char};

/// The telemetry of one GPU: recorders land their times in it, and anybody reads
/// it at any moment. It lives as long as the process.
pub struct Telemetry {
    _of_the_core: [u8; 0],
}

/// How much is measured.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing.
    Off = 0,
    /// Counts and wall times on the host; no driver call.
    Basic = 1,
    /// The same, and GPU times of lanes on each step and of launches on some.
    Kernel = 2,
}

/// Which launches are timed.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// All of one step in each block of N, chosen by a hash.
    Hashed = 0,
    /// All of the first step of each block of N.
    EveryNth = 1,
    /// One launch of each block of N launches, chosen by a hash.
    Spread = 2,
}

/// # Safety
/// NULL, or what [`metrale_telemetry_global`] or [`metrale_telemetry_create`] gave.
pub(crate) unsafe fn get(pointer: *const Telemetry) -> Result<&'static core::Telemetry, Fault> {
    // SAFETY: promised by the caller; neither of the two ever goes.
    unsafe { crate::pointers::get(pointer.cast::<core::Telemetry>(), "telemetry") }
}

fn handle(telemetry: &'static core::Telemetry) -> *const Telemetry {
    std::ptr::from_ref(telemetry).cast()
}

/// Gives a string away.
fn give(out: Out<*mut c_char>, text: String) -> Status {
    out.put(c_string(text).into_raw());
    Status::Ok
}

fn level_of(number: u32) -> Result<core::Level, Fault> {
    let known = core::Level::ALL.into_iter();
    let mut found = known.filter(|level| *level as u32 == number);
    found.next().ok_or_else(|| {
        let text = format!("level is {number}; 0 (off), 1 (basic) and 2 (kernel) are known");
        Fault(Status::Argument, text)
    })
}

fn sampling_of(number: u32) -> Result<core::Sampling, Fault> {
    match number {
        0 => Ok(core::Sampling::Hashed),
        1 => Ok(core::Sampling::EveryNth),
        2 => Ok(core::Sampling::Spread),
        _ => {
            let text =
                format!("sampling is {number}; 0 (hashed), 1 (every nth) and 2 (spread) are known");
            Err(Fault(Status::Argument, text))
        }
    }
}

/// The telemetry of a process that serves on one GPU. It is never NULL.
/// Any thread, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn metrale_telemetry_global() -> *const Telemetry {
    handle(core::global())
}

/// One more telemetry, for one more GPU. It lives as long as the process: make one
/// for each GPU, at the start.
///
/// # Safety
/// Any thread. `telemetry` takes the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_telemetry_create(telemetry: *mut *const Telemetry) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let out = unsafe { Out::new(telemetry, "telemetry") }?;
        out.put(handle(core::Telemetry::new().leak()));
        Ok(Status::Ok)
    })
}

/// Changes how much is measured: a `metrale_level`. Spans that are open can still be
/// ended and harvested.
///
/// # Safety
/// Any thread, at any time. `telemetry` is one that this library gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_telemetry_set_level(
    telemetry: *const Telemetry,
    level: u32,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let telemetry = unsafe { get(telemetry) }?;
        telemetry.set_level(level_of(level)?);
        Ok(Status::Ok)
    })
}

/// Changes level and sampling, a `metrale_level` and a `metrale_sampling`, where one
/// step or launch in `every` (1 or more) is chosen; `seed` is the hash's. A new
/// telemetry has `METRALE_LEVEL_KERNEL`, `METRALE_SAMPLING_HASHED`, 64 and 0.
///
/// # Safety
/// Any thread, at any time; a step that begins meanwhile may see some of the old
/// values. `telemetry` is one that this library gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_telemetry_configure(
    telemetry: *const Telemetry,
    level: u32,
    sampling: u32,
    every: u64,
    seed: u64,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let telemetry = unsafe { get(telemetry) }?;
        let config = TelemetryConfig {
            level: level_of(level)?,
            sampling: sampling_of(sampling)?,
            every,
            seed,
        };
        let configured = telemetry.configure(config);
        configured.map_err(|error| Fault(Status::Argument, error.to_string()))?;
        Ok(Status::Ok)
    })
}

/// Names up to 13 lanes beside admit, prefill and decode; the first is number 3. Once,
/// before the telemetry's first recorder is made: `METRALE_STATUS_REFUSED` after that.
///
/// # Safety
/// Any thread. `telemetry` is one that this library gave, `names` are `count` C
/// strings, which are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_telemetry_name_lanes(
    telemetry: *const Telemetry,
    names: *const *const c_char,
    count: usize,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let telemetry = unsafe { get(telemetry) }?;
        // SAFETY: the same.
        let names = unsafe { list(names, count, "names") }?;
        // SAFETY: the same.
        let name = |name: &*const c_char| unsafe { text(*name, "a name") };
        let names: Vec<&str> = names.iter().map(name).collect::<Result<_, _>>()?;
        telemetry.name_lanes(&names).map_err(|error| {
            let late = matches!(error, LaneNamesError::Again | LaneNamesError::TooLate);
            let status = if late { Status::Refused } else { Status::Argument };
            Fault(status, error.to_string())
        })?;
        Ok(Status::Ok)
    })
}

/// Everything that was measured, as JSON. The string is the caller's:
/// `metrale_string_free` frees it.
///
/// # Safety
/// Any thread, at any time; serving threads do not wait for it. `telemetry` is one
/// that this library gave, `json` takes the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_telemetry_snapshot(
    telemetry: *const Telemetry,
    json: *mut *mut c_char,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let out = unsafe { Out::new(json, "json") }?;
        out.put(std::ptr::null_mut());
        // SAFETY: the same.
        let telemetry = unsafe { get(telemetry) }?;
        let json = serde_json::to_string(&telemetry.snapshot());
        // A snapshot is numbers, names and lists: all of it can be written.
        let json = json.map_err(|error| Fault(Status::Panicked, error.to_string()))?;
        Ok(give(out, json))
    })
}

/// The metrics of `count` telemetries as text, to answer a Prometheus scrape with
/// (`text/plain; version=0.0.4`) or to append to a page of that format. The 20 kernels
/// with the most time get series, from the first call on. The string is the caller's:
/// `metrale_string_free` frees it.
///
/// # Safety
/// Any thread, at any time; serving threads do not wait for it. `telemetries` are ones
/// that this library gave, `page` takes the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_prometheus(
    telemetries: *const *const Telemetry,
    count: usize,
    page: *mut *mut c_char,
) -> Status {
    call(|| {
        // SAFETY: promised by the caller.
        let out = unsafe { Out::new(page, "page") }?;
        out.put(std::ptr::null_mut());
        // SAFETY: the same.
        let telemetries = unsafe { list(telemetries, count, "telemetries") }?;
        let mut collector: Option<MetraleCollector> = None;
        for telemetry in telemetries {
            // SAFETY: the same.
            let telemetry = unsafe { get(*telemetry) }?;
            collector = Some(match collector {
                None => MetraleCollector::new(telemetry),
                Some(collector) => collector.and(telemetry),
            });
        }
        Ok(give(out, collector.as_ref().map_or_else(String::new, export::text)))
    })
}

/// Frees a string that this library gave as `char *`; NULL is none.
///
/// # Safety
/// Any thread, once for each string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn metrale_string_free(string: *mut c_char) {
    if !string.is_null() {
        // SAFETY: promised by the caller: `into_raw` gave it.
        drop(unsafe { CString::from_raw(string) });
    }
}
