// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slots in turn: what a full ring drops, and how it recovers.

use super::scripted::Bench;
use crate::kernel::{SpanKey, SpanPoll, SpanRing};

const KERNEL: SpanKey = SpanKey::Kernel(5);

#[test]
fn slots_are_taken_in_turn_and_a_full_ring_drops() {
    let bench = Bench::new(3);
    let slots: Vec<_> = (0..3).map(|_| bench.span(KERNEL, 1)).collect();
    assert_eq!(slots, [0, 1, 2]);
    assert_eq!(bench.begin(KERNEL, 1), None);
    assert_eq!(bench.instruments.spans_dropped.get(), 1);
    (0..3).for_each(|slot| bench.script.answer(slot, SpanPoll::Ready(1)));
    assert_eq!(bench.harvest(), 3);
    assert_eq!(
        bench.begin(KERNEL, 1).map(|token| token.slot()),
        Some(1),
        "the next in turn"
    );
    bench.assert_closes();
}

#[test]
fn one_span_left_open_costs_its_own_slot_only() {
    let bench = Bench::new(4);
    let stuck = bench.begin(KERNEL, 1).unwrap();
    for slot in 0..4 {
        bench.script.answer(slot, SpanPoll::Ready(1));
    }
    let mut landed = 0;
    for _ in 0..100 {
        if let Some(token) = bench.begin(KERNEL, 2) {
            bench.ring.end(token, 2, &bench.instruments);
        }
        landed += bench.harvest();
    }
    assert_eq!(landed, 75);
    assert_eq!(bench.ring.ledger().dropped, 25);
    bench.ring.end(stuck, 1, &bench.instruments);
    assert_eq!(bench.harvest(), 1);
    bench.assert_closes();
}

#[test]
fn dropped_turns_leave_nothing_to_look_at() {
    let bench = Bench::new(4);
    assert!(bench.ring.is_idle());
    let open = bench.begin(KERNEL, 1).unwrap();
    assert!(!bench.ring.is_idle());
    (0..3).for_each(|_| _ = bench.span(KERNEL, 1));
    for _ in 0..7 {
        assert_eq!(bench.begin(KERNEL, 1), None);
    }
    (0..4).for_each(|slot| bench.script.answer(slot, SpanPoll::Ready(1)));
    assert_eq!(bench.harvest(), 3);
    assert!(!bench.ring.is_idle(), "one is still open");
    bench.ring.end(open, 1, &bench.instruments);
    assert_eq!(bench.harvest(), 1);
    assert!(bench.ring.is_idle());
    // Turns go on where the dropped ones left off.
    let slots: Vec<_> = (0..5).map(|_| bench.begin(KERNEL, 1)).collect();
    let slots: Vec<_> = slots.iter().map(|token| token.map(|t| t.slot())).collect();
    assert_eq!(slots, [Some(3), Some(0), Some(1), Some(2), None]);
    bench.assert_closes();
}

#[test]
fn a_cancelled_span_leaves_nothing_to_look_at() {
    let bench = Bench::new(2);
    for _ in 0..5 {
        let token = bench.begin(KERNEL, 1).unwrap();
        bench.ring.cancel(token);
        assert_eq!(bench.harvest(), 0);
        assert!(bench.ring.is_idle());
    }
    assert_eq!(bench.ring.ledger().passes, 5);
    assert_eq!(bench.harvest(), 0);
    assert_eq!(bench.ring.ledger().passes, 6, "an idle pass is one");
}

#[test]
#[should_panic(expected = "at least one slot")]
fn zero_slots_panic_as_documented() {
    let _ = SpanRing::new(super::scripted::Scripted::default(), 0);
}

#[test]
#[should_panic(expected = "at most 2^24 slots")]
fn more_slots_than_a_token_can_name_panic_as_documented() {
    let _ = SpanRing::new(super::scripted::Scripted::default(), (1 << 24) + 1);
}
