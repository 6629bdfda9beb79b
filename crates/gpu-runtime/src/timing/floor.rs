// SPDX-License-Identifier: MIT OR Apache-2.0
//! What measuring costs on this driver, and what a span of nothing reads: found
//! once, when a recorder is made.
//!
//! Empty spans are recorded on a stream of our own, over events of the pool,
//! before anybody else has them. They go through a ring and a watch of their
//! own: the recorder's ledgers, instruments and health know nothing of them.
//! Nothing waits for the GPU, and each loop is bounded by count and by time.

use super::events::CudaEvents;
use super::health::Watch;
use super::pace::Pace;
use super::process::unless_exiting;
use metrale_gpu_sys::cuda::{CAPTURE_MODE_RELAXED, CUstream, STREAM_NON_BLOCKING};
use metrale_telemetry::Floor;
use metrale_telemetry::clock::Clock;
use metrale_telemetry::kernel::{EventOps, Harvested, SpanKey, SpanPoll, SpanRing, SpanTag};
use std::sync::Arc;

/// Empty spans; fewer where the pool is smaller.
const PAIRS: usize = 32;
/// Times that the driver is asked whether an event is done, at most.
const MAX_POLLS: usize = 10_000;
/// How long it may take, ns. A call that blocks can take it beyond that; none
/// is begun after it but those that take the stream back.
const MAX_NS: u64 = 50_000_000;

/// Measures over `pool`, whose context is current. Where a call fails nothing
/// is known; one that stops a recorder stops the pool's.
pub(super) fn measure(pool: &CudaEvents, clock: Clock) -> Floor {
    let watch = Arc::new(Watch::new(Pace::new(clock, 0, u64::MAX)));
    let events = pool.lend(PAIRS, Arc::clone(&watch));
    let slots = events.len();
    let ring = SpanRing::new(events, slots);
    let floor = on_own_stream(&ring, clock);
    if let Some(status) = watch.cause() {
        pool.watch.quarantine(status);
        return Floor::default();
    }
    floor.unwrap_or_default()
}

/// The whole of it is in the relaxed mode: nothing says whether making a stream
/// is safe beside a capture.
fn on_own_stream(ring: &SpanRing<CudaEvents>, clock: Clock) -> Option<Floor> {
    let events = ring.ops();
    let outer = match events.exchange_mode(CAPTURE_MODE_RELAXED) {
        Ok(outer) => outer,
        Err(status) => {
            events.note(status);
            return None;
        }
    };
    let floor = create(events).and_then(|stream| {
        let floor = empty_spans(ring, stream, clock);
        let is_gone = destroy(events, stream);
        floor.filter(|_| is_gone)
    });
    events.restore_mode(outer);
    floor
}

fn create(events: &CudaEvents) -> Option<CUstream> {
    let mut stream: CUstream = std::ptr::null_mut();
    let status = unless_exiting(|| {
        // SAFETY: the pointer is to a live handle; a context is current.
        unsafe { (events.api().stream_create)(&raw mut stream, STREAM_NON_BLOCKING) }
    });
    events.note(status);
    // NULL would be the application's default stream.
    (status.is_success() && !stream.is_null()).then_some(stream)
}

/// Takes the stream back, unless the recorder was stopped. Work that is pending
/// completes all the same.
fn destroy(events: &CudaEvents, stream: CUstream) -> bool {
    if events.watch.is_silent() {
        return false;
    }
    // SAFETY: made by `create`, and destroyed here only.
    let status = unsafe { (events.api().stream_destroy)(stream) };
    events.note(status);
    status.is_success()
}

/// `None` where a call failed.
fn empty_spans(ring: &SpanRing<CudaEvents>, stream: CUstream, clock: Clock) -> Option<Floor> {
    let (events, stream) = (ring.ops(), stream as u64);
    let is_well = || ring.ledger().failed == 0 && events.watch.pace.refused.get() == 0;
    let began_ns = clock();
    let has_time = || clock().saturating_sub(began_ns) < MAX_NS;
    let (mut begin, mut end, mut poll) = (Vec::new(), Vec::new(), Vec::new());
    while begin.len() < ring.slots() && has_time() {
        let at_begin = clock();
        let begun = ring.begin_tagged(SpanKey::Lane(0), SpanTag::default(), stream);
        let token = begun.ok()?;
        let at_end = clock();
        ring.end_span(token, stream).ok()?;
        let at_poll = clock();
        begin.push(at_end.saturating_sub(at_begin));
        end.push(at_poll.saturating_sub(at_end));
        if !is_well() {
            return None;
        }
        // At once: the GPU has hardly had the time.
        let answer = events.poll(token.slot());
        if answer == SpanPoll::Failed || !is_well() {
            return None;
        }
        if answer == SpanPoll::Pending {
            poll.push(clock().saturating_sub(at_poll));
        }
    }
    let mut pairs_ns = Vec::new();
    let (mut polls, mut landed, mut took_ns) = (begin.len(), 0, 0);
    while landed < begin.len() && polls < MAX_POLLS && has_time() {
        let at_harvest = clock();
        let now_landed = ring.harvest_with(|span| {
            if let Harvested::Landed(span) = span {
                pairs_ns.push(span.ns);
            }
        });
        if !is_well() {
            return None;
        }
        if now_landed > 0 {
            took_ns += clock().saturating_sub(at_harvest);
            landed += now_landed;
        }
        polls += 1;
    }
    Some(Floor {
        pair_ns: median(pairs_ns),
        begin_ns: median(begin),
        end_ns: median(end),
        harvest_ns: took_ns.checked_div(landed as u64),
        poll_ns: median(poll),
    })
}

/// The upper one of two in the middle.
fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
