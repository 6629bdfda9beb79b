// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring under load on real threads: spans by the million that land, fail,
//! are cancelled and are ended twice, until the asked number was begun; then
//! the books. Exit codes: 0 they close, 1 they do not, 2 bad arguments.

#[cfg(metrale_loom)]
fn main() {
    eprintln!("stress: built for the model checker; build it without --cfg metrale_loom");
    std::process::exit(2);
}

#[cfg(not(metrale_loom))]
fn main() {
    std::process::exit(real::main());
}

#[cfg(not(metrale_loom))]
mod real {
    use metrale_telemetry::kernel::{
        Edge, EventOps, KernelInstruments, KernelTime, SpanKey, SpanPoll, SpanRing,
    };
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::Instant;

    xflags::xflags! {
        /// Runs the span ring on many threads and checks that its ledger closes.
        cmd stress {
            /// Spans to begin (default 10000000).
            optional --spans spans: u64
            /// Recorder threads, 1 to 64 (default 4).
            optional --threads threads: u64
        }
    }

    const SLOTS: usize = 256;
    /// Streams of each thread; a stream's number is a span's time.
    const STREAMS: u64 = 4;
    /// Set in the stream's number where its record fails.
    const FAILS: u64 = 1 << 32;

    thread_local! {
        /// Whether a start of this thread failed: `begin` says only `None`.
        static FAILED: Cell<bool> = const { Cell::new(false) };
    }

    struct Pair {
        busy: AtomicBool,
        ns: AtomicU64,
    }

    /// Pairs that are done at once, and that count who meets whom in one.
    struct Pairs {
        pairs: Vec<Pair>,
        met: AtomicU64,
    }

    impl Pairs {
        fn touch<T>(&self, slot: usize, touch: impl FnOnce(&AtomicU64) -> T) -> T {
            let pair = &self.pairs[slot];
            if pair.busy.swap(true, Ordering::Relaxed) {
                self.met.fetch_add(1, Ordering::Relaxed);
            }
            let result = touch(&pair.ns);
            pair.busy.store(false, Ordering::Relaxed);
            result
        }
    }

    impl EventOps for Pairs {
        fn record(&self, slot: usize, edge: Edge, stream: u64) -> bool {
            self.touch(slot, |ns| match edge {
                Edge::Start => FAILED.set(stream >= FAILS),
                Edge::End => ns.store(stream, Ordering::Relaxed),
            });
            stream < FAILS
        }
        fn poll(&self, slot: usize) -> SpanPoll {
            self.touch(slot, |ns| SpanPoll::Ready(ns.load(Ordering::Relaxed)))
        }
    }

    /// What a recorder expects to find in its row, and how often it ended a
    /// span that was over.
    #[derive(Default)]
    struct Expected {
        samples: u64,
        total_ns: u64,
        stale_ends: u64,
    }

    fn record(
        ring: &SpanRing<Pairs>,
        instruments: &KernelInstruments,
        func: u64,
        spans: u64,
    ) -> Expected {
        let mut expected = Expected::default();
        let (mut begun, mut attempt) = (0, 0u64);
        while begun < spans {
            attempt += 1;
            let stream = func * STREAMS + attempt % STREAMS;
            let odd = attempt % 64;
            let start = if odd == 3 { stream | FAILS } else { stream };
            let Some(token) = ring.begin(SpanKey::Kernel(func), start, instruments) else {
                begun += u64::from(FAILED.replace(false));
                if ring.harvest(instruments) == 0 {
                    // Another thread's pass is under way, perhaps suspended.
                    std::thread::yield_now();
                }
                continue;
            };
            begun += 1;
            match odd {
                1 => ring.cancel(token),
                2 => ring.end(token, stream | FAILS, instruments),
                _ => {
                    ring.end(token, stream, instruments);
                    expected.samples += 1;
                    expected.total_ns += stream;
                }
            }
            if odd == 4 {
                ring.end(token, stream, instruments);
                expected.stale_ends += 1;
            }
            if odd % 16 == 0 {
                ring.harvest(instruments);
            }
        }
        expected
    }

    pub(super) fn main() -> i32 {
        let flags = match Stress::from_env() {
            Ok(flags) => flags,
            Err(err) if err.is_help() => {
                println!("{err}");
                return 0;
            }
            Err(err) => {
                eprintln!("stress: {err}");
                return 2;
            }
        };
        let (spans, threads) = (
            flags.spans.unwrap_or(10_000_000),
            flags.threads.unwrap_or(4),
        );
        if !(1..=64).contains(&threads) {
            eprintln!("stress: --threads {threads}: from 1 to 64");
            return 2;
        }
        let faults = run(spans, threads);
        faults.iter().for_each(|fault| println!("FAULT: {fault}"));
        println!(
            "{}",
            if faults.is_empty() {
                "closed"
            } else {
                "NOT CLOSED"
            }
        );
        i32::from(!faults.is_empty())
    }

    /// Runs and prints; what is wrong with the books.
    fn run(spans: u64, threads: u64) -> Vec<String> {
        let new = || Pair {
            busy: AtomicBool::new(false),
            ns: AtomicU64::new(0),
        };
        let pairs = Pairs {
            pairs: std::iter::repeat_with(new).take(SLOTS).collect(),
            met: AtomicU64::new(0),
        };
        let ring = SpanRing::new(pairs, SLOTS);
        let instruments = Box::new(KernelInstruments::new());
        let start = Instant::now();
        let expected: Vec<Expected> = std::thread::scope(|scope| {
            let recorder = |thread: u64| {
                let share = spans / threads + u64::from(thread < spans % threads);
                let (ring, instruments) = (&ring, &*instruments);
                scope.spawn(move || record(ring, instruments, thread + 1, share))
            };
            let recorders: Vec<_> = (0..threads).map(recorder).collect();
            let join = |r: std::thread::ScopedJoinHandle<_>| r.join().expect("a recorder");
            recorders.into_iter().map(join).collect()
        });
        let seconds = start.elapsed().as_secs_f64();
        ring.harvest(&instruments);
        let ledger = ring.ledger();
        println!("spans      {spans}");
        println!("threads    {threads}");
        println!("seconds    {seconds:.1}");
        println!("attempts   {}", ledger.attempts);
        println!("begun      {}", ledger.begun);
        println!("dropped    {}", ledger.dropped);
        println!("refused    {}", ledger.refused);
        println!("landed     {}", ledger.landed);
        println!("failed     {}", ledger.failed);
        println!("cancelled  {}", ledger.cancelled);
        println!("reclaimed  {}", ledger.reclaimed);
        println!("in flight  {}", ledger.in_flight);
        println!("stale ends {}", ledger.stale_ends);
        println!("passes     {}", ledger.passes);

        let mut faults = Vec::new();
        let mut check = |sound: bool, fault: &str| {
            if !sound {
                faults.push(fault.to_owned());
            }
        };
        check(ledger.closes(), "the ledger does not close");
        check(ledger.in_flight == 0, "a span was left behind");
        check(
            ledger.begun == spans,
            "other spans were begun than asked for",
        );
        let met = ring.ops().met.load(Ordering::Relaxed);
        check(met == 0, "two threads touched one pair at once");
        let stale = expected.iter().map(|own| own.stale_ends).sum();
        check(
            ledger.stale_ends == stale,
            "an end of a span that was over was not refused",
        );
        let mut rows = instruments.kernels();
        rows.sort_unstable_by_key(|row| row.func);
        let funcs = (1..).zip(&expected).filter(|(_, own)| own.samples > 0);
        let wanted = funcs.map(|(func, own)| KernelTime {
            func,
            total_ns: own.total_ns,
            samples: own.samples,
        });
        check(
            rows.into_iter().eq(wanted),
            "the kernels' rows differ from what was ended",
        );
        faults
    }
}
