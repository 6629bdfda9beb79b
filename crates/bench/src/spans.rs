// SPDX-License-Identifier: MIT OR Apache-2.0
//! One face for the ring and for the plain design, so that both are put
//! through the same benchmark.

use metrale_telemetry::kernel::{EventOps, KernelInstruments, SpanKey, SpanRing, SpanToken};

/// A ring of spans.
pub trait Spans<E: EventOps>: Sync {
    /// What tables call it.
    const NAME: &'static str;
    /// An open span.
    type Token: Copy;

    /// A ring of `slots` slots over `ops`.
    fn make(ops: E, slots: usize) -> Self;
    /// Begins a span; `None` where the next slot is in use.
    fn begin(&self, key: SpanKey, stream: u64, into: &KernelInstruments) -> Option<Self::Token>;
    /// Ends a span.
    fn end(&self, token: Self::Token, stream: u64, into: &KernelInstruments);
    /// Lands what is done, and says how many spans that were.
    fn harvest(&self, into: &KernelInstruments) -> usize;

    /// Begins and ends `spans` spans, of one kernel after the other and turn by
    /// turn on streams 1 to `streams`. Returns how many found a slot.
    #[inline]
    fn fill(&self, spans: usize, streams: u64, into: &KernelInstruments) -> usize {
        let mut taken = 0;
        let mut stream = 0;
        for nth in 0..spans {
            stream = if stream < streams { stream + 1 } else { 1 };
            if let Some(token) = self.begin(SpanKey::Kernel(kernel(nth)), stream, into) {
                self.end(token, stream, into);
                taken += 1;
            }
        }
        taken
    }
}

/// The kernels that [`Spans::fill`] times: the 22 to 27 of the recorded steps of
/// language models, to the next power of two.
pub const KERNELS: usize = 32;

/// The kernel of the `nth` span: no two after each other are of the same one.
#[must_use]
pub const fn kernel(nth: usize) -> u64 {
    handle(nth % KERNELS)
}

/// The `nth` function handle, as an allocator hands them out.
#[must_use]
pub const fn handle(nth: usize) -> u64 {
    0x7f00_1234_0000 + nth as u64 * 0x1c0
}

impl<E: EventOps> Spans<E> for SpanRing<E> {
    const NAME: &'static str = "metrale";
    type Token = SpanToken;

    fn make(ops: E, slots: usize) -> Self {
        SpanRing::new(ops, slots)
    }
    #[inline]
    fn begin(&self, key: SpanKey, stream: u64, into: &KernelInstruments) -> Option<SpanToken> {
        SpanRing::begin(self, key, stream, into)
    }
    #[inline]
    fn end(&self, token: SpanToken, stream: u64, into: &KernelInstruments) {
        SpanRing::end(self, token, stream, into);
    }
    #[inline]
    fn harvest(&self, into: &KernelInstruments) -> usize {
        SpanRing::harvest(self, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Done, SPAN_NS, Waiting};
    use crate::naive::NaiveRing;
    use metrale_telemetry::kernel::KernelTime;

    /// Both land the same spans with the same times, so the comparison is fair.
    fn lands<S: Spans<Done>>() {
        let (ring, into) = (S::make(Done, 8), Box::new(KernelInstruments::new()));
        for round in 1..=5 {
            assert_eq!(ring.fill(5, 3, &into), 5, "{}", S::NAME);
            assert_eq!(ring.harvest(&into), 5, "{}", S::NAME);
            assert_eq!(ring.harvest(&into), 0, "{}", S::NAME);
            let row =
                |nth| KernelTime { func: kernel(nth), total_ns: round * SPAN_NS, samples: round };
            let mut rows = into.kernels();
            rows.sort_by_key(|row| row.func);
            assert_eq!(rows, [0, 1, 2, 3, 4].map(row), "{}", S::NAME);
        }
        assert_eq!(ring.fill(11, 1, &into), 8);
        assert_eq!(into.spans_dropped.get(), 3, "{}", S::NAME);
        let token = ring.begin(SpanKey::Lane(2), 1, &into);
        assert!(token.is_none());
        assert_eq!(ring.harvest(&into), 8);
        let token = ring.begin(SpanKey::Lane(2), 1, &into).expect("a free slot");
        ring.end(token, 1, &into);
        assert_eq!((ring.harvest(&into), into.lane[2].count()), (1, 1));
    }

    fn waits<S: Spans<Waiting>>() {
        let (ring, into) = (S::make(Waiting, 8), Box::new(KernelInstruments::new()));
        assert_eq!(ring.fill(8, 2, &into), 8);
        assert_eq!(ring.harvest(&into), 0, "{}", S::NAME);
        assert_eq!(ring.fill(1, 1, &into), 0, "{}", S::NAME);
    }

    #[test]
    fn both_designs_do_the_same_work() {
        lands::<SpanRing<Done>>();
        lands::<NaiveRing<Done>>();
        waits::<SpanRing<Waiting>>();
        waits::<NaiveRing<Waiting>>();
    }
}
