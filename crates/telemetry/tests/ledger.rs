// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring under load on real threads: spans that land, fail, are cancelled and
//! are ended twice. The ledger read meanwhile is off by no more than the
//! operations in progress and never goes back; at rest it is exact, and so are
//! the rows. No two threads ever touch one pair of events.
#![cfg(not(metrale_loom))]

use metrale_telemetry::kernel::{
    Edge, EventOps, KernelInstruments, KernelTime, Ledger, SpanKey, SpanPoll, SpanRing,
};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SLOTS: usize = 8;
const WORKERS: u64 = 4;
/// Attempts of each.
const ATTEMPTS: u64 = 1_000_000;

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

#[derive(Debug, Default)]
struct Pair {
    busy: AtomicBool,
    /// The stream of its end, which is also the span's time.
    stream: AtomicU64,
}

/// What happens to a span follows from the streams of its start and its end.
fn start_fails(stream: u64) -> bool {
    stream.is_multiple_of(13)
}
fn end_fails(stream: u64) -> bool {
    stream.is_multiple_of(7)
}
fn poll_fails(stream: u64) -> bool {
    stream.is_multiple_of(5)
}
fn is_refused(stream: u64) -> bool {
    stream.is_multiple_of(11)
}

/// Pairs that are done at once, and that count who meets whom in one.
#[derive(Debug, Default)]
struct Ops {
    pairs: [Pair; SLOTS],
    met: AtomicU64,
    progress: Progress,
}

impl Ops {
    fn touch<T>(&self, slot: usize, touch: impl FnOnce(&AtomicU64) -> T) -> T {
        let pair = &self.pairs[slot];
        if pair.busy.swap(true, Ordering::Relaxed) {
            self.met.fetch_add(1, Ordering::Relaxed);
        }
        let result = touch(&pair.stream);
        pair.busy.store(false, Ordering::Relaxed);
        result
    }
}

impl EventOps for Ops {
    fn record(&self, slot: usize, edge: Edge, stream: u64) -> bool {
        self.touch(slot, |at| match edge {
            Edge::Start => !start_fails(stream),
            Edge::End => {
                at.store(stream, Ordering::Relaxed);
                !end_fails(stream)
            }
        })
    }
    fn poll(&self, slot: usize) -> SpanPoll {
        self.progress.started.fetch_add(1, Ordering::SeqCst);
        POLLS.set(POLLS.get() + 1);
        let stream = self.touch(slot, |at| at.load(Ordering::Relaxed));
        if poll_fails(stream) { SpanPoll::Failed } else { SpanPoll::Ready(stream) }
    }
    fn admits(&self, stream: u64) -> bool {
        !is_refused(stream)
    }
}

/// By how much the two sums are open.
fn open_by(ledger: &Ledger) -> (u64, u64) {
    let over =
        ledger.landed + ledger.failed + ledger.cancelled + ledger.reclaimed + ledger.in_flight;
    (
        ledger.attempts.abs_diff(ledger.begun + ledger.dropped + ledger.refused),
        ledger.begun.abs_diff(over),
    )
}

/// What a worker expects of its own spans.
#[derive(Debug, Default)]
struct Expected {
    row: Option<KernelTime>,
    refused: u64,
    cancelled: u64,
    stale_ends: u64,
    /// What its harvests landed, of whomever.
    landed: u64,
}

/// Begins, ends, cancels and harvests.
fn work(ring: &SpanRing<Ops>, instruments: &KernelInstruments, own: u64) -> Expected {
    let progress = &ring.ops().progress;
    let mut expected = Expected::default();
    let mut row = KernelTime { func: own, total_ns: 0, samples: 0 };
    for attempt in 0..ATTEMPTS {
        let stream = own * 1_000 + attempt % 50;
        expected.refused += u64::from(is_refused(stream));
        let token = progress.during(|| ring.begin(SpanKey::Kernel(own), stream, instruments));
        match token {
            Some(token) if attempt % 9 == 0 => {
                progress.during(|| ring.cancel(token));
                expected.cancelled += 1;
            }
            Some(token) => {
                progress.during(|| ring.end(token, stream, instruments));
                if !end_fails(stream) && !poll_fails(stream) {
                    row.samples += 1;
                    row.total_ns += stream;
                }
                if attempt % 16 == 0 {
                    ring.end(token, stream, instruments);
                    expected.stale_ends += 1;
                }
            }
            None => {}
        }
        if attempt % 4 == 0 {
            expected.landed += ring.harvest(instruments) as u64;
            progress.finished.fetch_add(POLLS.take(), Ordering::SeqCst);
        }
    }
    expected.row = Some(row);
    expected
}

/// One reading beside the workers, after `last`.
fn read(ring: &SpanRing<Ops>, last: &Ledger) -> Ledger {
    let progress = &ring.ops().progress;
    let finished = progress.finished.load(Ordering::SeqCst);
    let now = ring.ledger();
    let in_progress = progress.started.load(Ordering::SeqCst) - finished;
    let (attempts, begun) = open_by(&now);
    assert!(
        attempts <= in_progress && begun <= in_progress,
        "off by {attempts} and {begun} with {in_progress} in progress: {now:?}"
    );
    let counts = |l: &Ledger| {
        [l.attempts, l.begun, l.landed, l.dropped, l.refused, l.failed, l.cancelled, l.passes]
    };
    let forward = counts(last).into_iter().zip(counts(&now));
    assert!(forward.into_iter().all(|(before, after)| before <= after), "{last:?} then {now:?}");
    now
}

#[test]
fn the_ledger_closes_and_a_reading_is_off_by_at_most_the_operations_in_progress() {
    let instruments = Box::new(KernelInstruments::new());
    let ring = SpanRing::new(Ops::default(), SLOTS);
    let running = AtomicU64::new(WORKERS);
    let (expected, readings) = std::thread::scope(|scope| {
        let worker = |own| {
            let (ring, instruments, running) = (&ring, &*instruments, &running);
            scope.spawn(move || {
                let expected = work(ring, instruments, own);
                running.fetch_sub(1, Ordering::Relaxed);
                expected
            })
        };
        let workers: Vec<_> = (1..=WORKERS).map(worker).collect();
        let (mut last, mut readings) = (Ledger::default(), 0);
        // A worker that panics is found by its join.
        while running.load(Ordering::Relaxed) > 0
            && workers.iter().any(|worker| !worker.is_finished())
        {
            last = read(&ring, &last);
            readings += u64::from(last.begun > 0);
        }
        let join = |worker: std::thread::ScopedJoinHandle<'_, Expected>| worker.join();
        let expected: Result<Vec<_>, _> = workers.into_iter().map(join).collect();
        (expected.expect("the workers end"), readings)
    });
    assert!(readings > 100, "only {readings} readings beside the workers");
    let rest = ring.harvest(&instruments) as u64;
    let ledger = ring.ledger();
    assert_eq!(open_by(&ledger), (0, 0), "{ledger:?}");
    assert!(ledger.closes());
    let sum = |count: fn(&Expected) -> u64| expected.iter().map(count).sum::<u64>();
    assert_eq!((ledger.attempts, ledger.in_flight), (WORKERS * ATTEMPTS, 0));
    assert_eq!(ledger.landed, sum(|own| own.landed) + rest);
    assert_eq!(ledger.refused, sum(|own| own.refused));
    assert_eq!(ledger.cancelled, sum(|own| own.cancelled));
    assert_eq!(ledger.stale_ends, sum(|own| own.stale_ends));
    assert_eq!(instruments.spans_dropped.get(), ledger.dropped);
    assert_eq!(instruments.span_failures.get(), ledger.failed);
    assert_eq!(ring.ops().met.load(Ordering::Relaxed), 0, "two in one pair");
    let mut rows = instruments.kernels();
    rows.sort_unstable_by_key(|row| row.func);
    let wanted: Vec<_> = expected.iter().filter_map(|own| own.row).collect();
    assert_eq!(rows, wanted);
    let landed = wanted.iter().map(|row| row.samples).sum::<u64>();
    assert!(ledger.landed == landed && landed > 0, "{ledger:?}");
}
