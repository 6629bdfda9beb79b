// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ledger read while threads work: off by no more than the operations in
//! progress, never back, and exact at rest.
#![cfg(not(metrale_loom))]

use metrale_telemetry::kernel::{
    Edge, EventOps, KernelInstruments, Ledger, SpanKey, SpanPoll, SpanRing,
};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

thread_local! {
    /// Polls of this thread's pass: each is the start of a landing.
    static POLLS: Cell<u64> = const { Cell::new(0) };
}

/// Operations that have started and finished; what lies between is in progress.
#[derive(Debug, Default)]
struct Progress {
    started: AtomicU64,
    finished: AtomicU64,
}

impl Progress {
    fn during<T>(&self, operation: impl FnOnce() -> T) -> T {
        self.started.fetch_add(1, Ordering::SeqCst);
        let result = operation();
        self.finished.fetch_add(1, Ordering::SeqCst);
        result
    }
}

#[derive(Debug)]
struct Ops<'a>(&'a Progress);

impl EventOps for Ops<'_> {
    fn record(&self, slot: usize, edge: Edge, stream: u64) -> bool {
        // Some starts and some ends cannot be recorded.
        let edge = if edge == Edge::Start { 5 } else { 7 };
        !(slot as u64 + stream).is_multiple_of(edge)
    }
    fn poll(&self, slot: usize) -> SpanPoll {
        self.0.started.fetch_add(1, Ordering::SeqCst);
        POLLS.set(POLLS.get() + 1);
        if slot.is_multiple_of(3) {
            SpanPoll::Failed
        } else {
            SpanPoll::Ready(1)
        }
    }
    fn admits(&self, stream: u64) -> bool {
        !stream.is_multiple_of(11)
    }
}

/// By how much the two sums are open.
fn open_by(ledger: &Ledger) -> (u64, u64) {
    let over =
        ledger.landed + ledger.failed + ledger.cancelled + ledger.reclaimed + ledger.in_flight;
    (
        ledger
            .attempts
            .abs_diff(ledger.begun + ledger.dropped + ledger.refused),
        ledger.begun.abs_diff(over),
    )
}

/// Begins, ends, cancels and harvests until told to stop; how often it began.
fn work(
    ring: &SpanRing<Ops<'_>>,
    progress: &Progress,
    instruments: &KernelInstruments,
    own: u64,
    stop: &AtomicBool,
) -> u64 {
    let mut attempts = 0;
    while !stop.load(Ordering::Relaxed) {
        attempts += 1;
        let stream = own * 1_000 + attempts % 50;
        let token = progress.during(|| ring.begin(SpanKey::Kernel(own), stream, instruments));
        if let Some(token) = token {
            if attempts % 5 == 0 {
                progress.during(|| ring.cancel(token));
            } else {
                progress.during(|| ring.end(token, stream, instruments));
            }
        }
        if attempts % 4 == 0 {
            ring.harvest(instruments);
            progress.finished.fetch_add(POLLS.take(), Ordering::SeqCst);
        }
    }
    attempts
}

/// One reading beside the workers, after `last`.
fn read(ring: &SpanRing<Ops<'_>>, progress: &Progress, last: &Ledger) -> Ledger {
    let finished = progress.finished.load(Ordering::SeqCst);
    let now = ring.ledger();
    let in_progress = progress.started.load(Ordering::SeqCst) - finished;
    let (attempts, begun) = open_by(&now);
    assert!(
        attempts <= in_progress && begun <= in_progress,
        "off by {attempts} and {begun} with {in_progress} in progress: {now:?}"
    );
    let counts = |l: &Ledger| {
        [
            l.attempts,
            l.begun,
            l.landed,
            l.dropped,
            l.refused,
            l.failed,
            l.cancelled,
            l.passes,
        ]
    };
    let forward = counts(last).into_iter().zip(counts(&now));
    assert!(
        forward.into_iter().all(|(before, after)| before <= after),
        "{last:?} then {now:?}"
    );
    now
}

#[test]
fn a_reading_is_off_by_at_most_the_operations_in_progress() {
    let progress = Progress::default();
    let instruments = Box::new(KernelInstruments::new());
    let ring = SpanRing::new(Ops(&progress), 4);
    let stop = AtomicBool::new(false);
    let attempts: u64 = std::thread::scope(|scope| {
        let worker = |own| {
            let (ring, progress, instruments, stop) = (&ring, &progress, &*instruments, &stop);
            scope.spawn(move || work(ring, progress, instruments, own, stop))
        };
        let workers: Vec<_> = (1..=3).map(worker).collect();
        // A panic here must not leave the workers running.
        let readings = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..1_000_000).fold(Ledger::default(), |last, _| read(&ring, &progress, &last))
        }));
        stop.store(true, Ordering::Relaxed);
        let attempts = workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker"))
            .sum();
        let last = readings.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert!(last.begun > 0, "nothing happened beside the readings");
        attempts
    });
    ring.harvest(&instruments);
    let ledger = ring.ledger();
    assert_eq!(open_by(&ledger), (0, 0), "{ledger:?}");
    assert!(ledger.closes());
    assert_eq!((ledger.attempts, ledger.in_flight), (attempts, 0));
}
