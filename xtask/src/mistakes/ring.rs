// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mistakes of the ring, its slots and its passes.

use super::{Mistake, mistake};

const RING: &str = "crates/telemetry/src/kernel/ring.rs";
const PASS: &str = "crates/telemetry/src/kernel/pass.rs";
const SLOT: &str = "crates/telemetry/src/kernel/slot.rs";

#[rustfmt::skip]
pub(super) const ALL: &[Mistake] = &[
    mistake("open before the start is recorded", "recorders::a_span_may_end_on_another_thread", &[
        (RING, "take", "if self.ops.record(index, Edge::Start, stream) {
                claimed.open();
                Ok(SpanToken::new(self.id, lap, index))
            } else {
                claimed.abandon();
                self.counts.failed.add(1);
                Err(NotBegun::Failed)
            }",
            "claimed.open();
            self.ops.record(index, Edge::Start, stream);
            Ok(SpanToken::new(self.id, lap, index))"),
    ]),
    mistake("close before the end is recorded", "tail::a_closed_span_is_landed_as_it_was_left", &[
        (RING, "end_span", "if self.ops.record(index, Edge::End, stream) {
                ending.close(stream);
                Ok(())
            } else {
                let lost = ending.abandon().lost();
                self.counts.failed.add(1);
                Err(NotEnded::Failed(lost))
            }",
            "ending.close(stream);
            self.ops.record(index, Edge::End, stream);
            Ok(())"),
    ]),
    mistake("describe after open", "tokens::a_reclaim_never_takes_a_span_whose_end_is_being_recorded", &[
        (RING, "take", "claimed.describe(packed, losses);", ""),
        (RING, "take", "claimed.open();", "claimed.open_and_describe(packed, losses);"),
        (SLOT, "open", "self.slot.word.store(word.0, Ordering::Release);",
            "self.slot.word.store(word.0, Ordering::Release);
            }
            pub(super) fn open_and_describe(self, packed: Packed, losses: u64) {
                let word = Word::new(State::Open, self.lap);
                self.slot.word.store(word.0, Ordering::Release);
                self.describe(packed, losses);"),
    ]),
    mistake("free before the poll", "harvesters::two_harvesters_land_each_span_once", &[
        (PASS, "land", "span.land();", ""),
        (PASS, "poll", "let answer =", "self.ring.slots[index].closed(span.lap()).land(); let answer ="),
    ]),
    mistake("free before the gap is read", "gaps::a_gap_against_a_recorder_of_its_own_slot", &[
        (PASS, "land", "span.land();", ""),
        (PASS, "land", "let gap_ns =", "self.ring.slots[index].closed(span.lap()).land(); let gap_ns ="),
    ]),
    mistake("passes that do not exclude each other", "harvesters::two_harvesters_of_spans_at_rest", &[
        (PASS, "harvest_for", "let Some(mut guard) = try_lock(&self.pass)",
            "let own = crate::sync::Mutex::new(Pass::new(self.slots.len(), true));
            let Some(mut guard) = try_lock(&own)"),
    ]),
    mistake("claim by load and store", "recorders::two_recorders_take_one_slot_again_and_again", &[
        (SLOT, "claim", "match self.exchange(seen, Word::new(State::Starting, lap), Ordering::Acquire)",
            "let found = self.word();
            let free = found.is_free() && found.lap() < lap;
            if free { self.word.store(Word::new(State::Starting, lap).0, Ordering::Release); }
            match if free { Ok(()) } else { Err(found) }"),
    ]),
    mistake("take an open span by load and store", "recorders::of_two_ends_of_one_span_one_records", &[
        (SLOT, "take_open", "self.exchange(seen, Word::new(State::Ending, lap), Ordering::Acquire)",
            "{ fence(Ordering::Acquire);
            self.word.store(Word::new(State::Ending, lap).0, Ordering::Release);
            Ok::<(), Word>(()) }"),
    ]),
    mistake("cancel of a span that is being ended", "tokens::a_cancel_tells_what_its_span_was", &[
        (RING, "cancel", "seen.state() == State::Open",
            "matches!(seen.state(), State::Open | State::Ending)"),
    ]),
    mistake("what a span was, read after it was freed", "tokens::a_cancel_tells_what_its_span_was", &[
        (SLOT, "abandon", "let packed = self.slot.filed();", ""),
        (SLOT, "abandon", "self.slot.free(State::Free, self.lap); packed",
            "self.slot.free(State::Free, self.lap); self.slot.filed()"),
    ]),
    mistake("generation not bumped", "tokens::a_late_end_against_the_slots_next_span", &[
        (RING, "take", "self.laps.of(ticket)", "(self.laps.of(ticket).0, 1)"),
        (SLOT, "claim", "|| found.lap() >= lap", ""),
    ]),
    mistake("generation not compared", "tokens::a_late_end_against_the_slots_next_span", &[
        (SLOT, "begin_end", "|| !token.is_lap(seen.lap())", ""),
    ]),
    mistake("reclaim in the middle of a record", "tokens::a_reclaim_never_takes_a_span_whose_end_is_being_recorded", &[
        (PASS, "visit", "State::Starting | State::Ending => false",
            "State::Starting | State::Ending => self.reclaim(index, slot, word)"),
    ]),
    mistake("tail moved past turns that nobody has taken yet", "tail::a_recorder_between_ticket_and_claim_is_not_left_behind", &[
        (PASS, "visit", "word.lap() < lap", "false"),
    ]),
    mistake("skip of a slot that nobody was turned away from", "tail::a_recorder_between_ticket_and_claim_is_not_left_behind", &[
        (SLOT, "skip", "self.turned_away.load(Ordering::Relaxed) < lap",
            "self.turned_away.load(Ordering::Relaxed) > lap"),
    ]),
    mistake("skip that does not say so in the word", "tail::a_recorder_that_oversleeps_a_skip_begins_nothing", &[
        (SLOT, "skip", "self.exchange(seen, Word::new(State::Free, lap), Ordering::Relaxed)",
            "({ let _ = seen; Ok::<(), Word>(()) })"),
    ]),
    mistake("head read before the tail", "tail::a_pass_over_an_idle_ring_leaves_nothing_of_its_caller", &[
        (RING, "is_idle", "self.head.load(Ordering::Relaxed) == tail", "head == tail"),
        (RING, "is_idle", "let tail =", "let head = self.head.load(Ordering::Relaxed); let tail ="),
    ]),
    mistake("gap not checked after it was read", "gaps::a_gap_against_a_recorder_of_the_slot_before", &[
        (SLOT, "while_landed", "if self.peek() == landed { value } else { None }", "value"),
    ]),
];
