// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which token names which span.

use super::scripted::{Bench, Call};
use crate::kernel::{Edge, SpanKey, SpanPoll, SpanToken};

const KERNEL: SpanKey = SpanKey::Kernel(0xfeed_f00d_dead_beef);

#[test]
fn a_token_survives_its_bits_and_names_only_its_own_span() {
    let bench = Bench::new(1);
    let first = bench.begin(KERNEL, 1).unwrap();
    assert_eq!(SpanToken::from_bits(first.to_bits()), first);
    bench.ring.end(first, 1, &bench.instruments);
    bench.script.answer(0, SpanPoll::Ready(10));
    bench.harvest();

    let second = bench.begin(KERNEL, 1).unwrap();
    bench.script.calls();
    bench
        .ring
        .end(SpanToken::from_bits(first.to_bits()), 1, &bench.instruments);
    assert_eq!(bench.script.calls(), [], "the first token is stale");
    bench.ring.end(second, 1, &bench.instruments);
    bench.ring.end(second, 1, &bench.instruments);
    assert_eq!(
        bench.script.calls(),
        [Call::Record(0, Edge::End, 1)],
        "ended once"
    );
    assert_eq!(bench.ring.ledger().stale_ends, 2);
    assert_eq!(bench.harvest(), 1);
    assert_eq!(bench.instruments.kernels()[0].func, 0xfeed_f00d_dead_beef);
    bench.assert_closes();
}

#[test]
fn a_slot_number_names_the_span_open_there_now() {
    let bench = Bench::new(2);
    for _ in 0..5 {
        let parked = bench.begin(KERNEL, 1).unwrap().slot();
        bench
            .ring
            .end(SpanToken::from_slot(parked), 1, &bench.instruments);
        bench.script.answer(parked, SpanPoll::Ready(1));
        assert_eq!(bench.harvest(), 1);
    }
    bench
        .ring
        .end(SpanToken::from_slot(0), 1, &bench.instruments);
    assert_eq!(bench.ring.ledger().stale_ends, 1);
}

#[test]
fn tokens_of_another_ring_and_out_of_range_slots_are_refused() {
    let (ours, theirs) = (Bench::new(4), Bench::new(4));
    let own = ours.begin(KERNEL, 1).unwrap();
    let foreign = theirs.begin(KERNEL, 1).unwrap();
    ours.script.calls();
    for token in [
        foreign,
        SpanToken::from_slot(4),
        SpanToken::from_slot(usize::MAX),
        SpanToken::from_bits(u64::MAX),
        // This ring and lap, a slot it does not have.
        SpanToken::from_bits(own.to_bits() | 4),
        // This ring and slot, another lap.
        SpanToken::from_bits(own.to_bits() ^ 1 << 24),
    ] {
        ours.ring.end(token, 1, &ours.instruments);
        ours.ring.cancel(token);
    }
    assert_eq!(ours.script.calls(), []);
    assert_eq!(ours.ring.ledger().stale_ends, 12);
    assert_eq!(ours.ring.ledger().in_flight, 1);
}
