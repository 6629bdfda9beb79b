// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mistakes of the ring, its slots and its passes.

use super::Mistake;

const RING: &str = "kernel/ring.rs";
const PASS: &str = "kernel/pass.rs";
const SLOT: &str = "kernel/slot.rs";

pub(super) const ALL: &[Mistake] = &[
    Mistake {
        name: "open before the start is recorded",
        model: "recorders::a_span_may_end_on_another_thread",
        edits: &[(
            RING,
            "take",
            "if self.ops.record(index, Edge::Start, stream) {
                claimed.open();
                Ok(SpanToken::new(self.id, lap, index))
            } else {
                claimed.abandon();
                self.counts.failed.add(1);
                Err(NotBegun::Failed)
            }",
            "claimed.open();
            self.ops.record(index, Edge::Start, stream);
            Ok(SpanToken::new(self.id, lap, index))",
        )],
    },
    Mistake {
        name: "close before the end is recorded",
        model: "tail::a_closed_span_is_landed_as_it_was_left",
        edits: &[(
            RING,
            "end_span",
            "if self.ops.record(index, Edge::End, stream) {
                ending.close(stream);
                Ok(())
            } else {
                let lost = ending.abandon().lost();
                self.counts.failed.add(1);
                Err(NotEnded::Failed(lost))
            }",
            "ending.close(stream);
            self.ops.record(index, Edge::End, stream);
            Ok(())",
        )],
    },
    Mistake {
        name: "describe after open",
        model: "tokens::a_reclaim_never_takes_a_span_whose_end_is_being_recorded",
        edits: &[
            (RING, "take", "claimed.describe(packed, losses);", ""),
            (
                RING,
                "take",
                "claimed.open();",
                "claimed.open_and_describe(packed, losses);",
            ),
            (
                SLOT,
                "open",
                "self.slot.word.store(word.0, Ordering::Release);",
                "self.slot.word.store(word.0, Ordering::Release);
            }
            pub(super) fn open_and_describe(self, packed: Packed, losses: u64) {
                let word = Word::new(State::Open, self.lap);
                self.slot.word.store(word.0, Ordering::Release);
                self.describe(packed, losses);",
            ),
        ],
    },
    Mistake {
        name: "free before the poll",
        model: "harvesters::two_harvesters_land_each_span_once",
        edits: &[
            (PASS, "land", "span.land();", ""),
            (
                PASS,
                "poll",
                "let answer =",
                "self.ring.slots[index].closed(span.lap()).land(); let answer =",
            ),
        ],
    },
    Mistake {
        name: "free before the gap is read",
        model: "gaps::a_gap_against_a_recorder_of_its_own_slot",
        edits: &[
            (PASS, "land", "span.land();", ""),
            (
                PASS,
                "land",
                "let gap_ns =",
                "self.ring.slots[index].closed(span.lap()).land(); let gap_ns =",
            ),
        ],
    },
    Mistake {
        name: "passes that do not exclude each other",
        model: "harvesters::two_harvesters_of_spans_at_rest",
        edits: &[(
            PASS,
            "harvest_for",
            "let Some(mut guard) = try_lock(&self.pass)",
            "let own = crate::sync::Mutex::new(Pass::new(self.slots.len(), true));
            let Some(mut guard) = try_lock(&own)",
        )],
    },
    Mistake {
        name: "claim by load and store",
        model: "recorders::two_recorders_take_one_slot_again_and_again",
        edits: &[(
            SLOT,
            "claim",
            "match self.exchange(seen, Word::new(State::Starting, lap), Ordering::Acquire)",
            "let found = self.word();
            let free = found.is_free() && found.lap() < lap;
            if free { self.word.store(Word::new(State::Starting, lap).0, Ordering::Release); }
            match if free { Ok(()) } else { Err(found) }",
        )],
    },
    Mistake {
        name: "take an open span by load and store",
        model: "recorders::of_two_ends_of_one_span_one_records",
        edits: &[(
            SLOT,
            "take_open",
            "self.exchange(seen, Word::new(State::Ending, lap), Ordering::Acquire)",
            "{ fence(Ordering::Acquire);
            self.word.store(Word::new(State::Ending, lap).0, Ordering::Release);
            Ok::<(), Word>(()) }",
        )],
    },
    Mistake {
        name: "cancel of a span that is being ended",
        model: "tokens::a_cancel_tells_what_its_span_was",
        edits: &[(
            RING,
            "cancel",
            "seen.state() == State::Open",
            "matches!(seen.state(), State::Open | State::Ending)",
        )],
    },
    Mistake {
        name: "what a span was, read after it was freed",
        model: "tokens::a_cancel_tells_what_its_span_was",
        edits: &[
            (SLOT, "abandon", "let packed = self.slot.filed();", ""),
            (
                SLOT,
                "abandon",
                "self.slot.free(State::Free, self.lap); packed",
                "self.slot.free(State::Free, self.lap); self.slot.filed()",
            ),
        ],
    },
    Mistake {
        name: "generation not bumped",
        model: "tokens::a_late_end_against_the_slots_next_span",
        edits: &[
            (
                RING,
                "take",
                "self.laps.of(ticket)",
                "(self.laps.of(ticket).0, 1)",
            ),
            (SLOT, "claim", "|| found.lap() >= lap", ""),
        ],
    },
    Mistake {
        name: "generation not compared",
        model: "tokens::a_late_end_against_the_slots_next_span",
        edits: &[(SLOT, "begin_end", "|| !token.is_lap(seen.lap())", "")],
    },
    Mistake {
        name: "reclaim in the middle of a record",
        model: "tokens::a_reclaim_never_takes_a_span_whose_end_is_being_recorded",
        edits: &[(
            PASS,
            "visit",
            "State::Starting | State::Ending => false",
            "State::Starting | State::Ending => self.reclaim(index, slot, word)",
        )],
    },
    Mistake {
        name: "tail moved past turns that nobody has taken yet",
        model: "tail::a_recorder_between_ticket_and_claim_is_not_left_behind",
        edits: &[(PASS, "visit", "word.lap() < lap", "false")],
    },
    Mistake {
        name: "skip of a slot that nobody was turned away from",
        model: "tail::a_recorder_between_ticket_and_claim_is_not_left_behind",
        edits: &[(
            SLOT,
            "skip",
            "self.turned_away.load(Ordering::Relaxed) < lap",
            "self.turned_away.load(Ordering::Relaxed) > lap",
        )],
    },
    Mistake {
        name: "skip that does not say so in the word",
        model: "tail::a_recorder_that_oversleeps_a_skip_begins_nothing",
        edits: &[(
            SLOT,
            "skip",
            "self.exchange(seen, Word::new(State::Free, lap), Ordering::Relaxed)",
            "({ let _ = seen; Ok::<(), Word>(()) })",
        )],
    },
    Mistake {
        name: "head read before the tail",
        model: "tail::a_pass_over_an_idle_ring_leaves_nothing_of_its_caller",
        edits: &[
            (
                RING,
                "is_idle",
                "self.head.load(Ordering::Relaxed) == tail",
                "head == tail",
            ),
            (
                RING,
                "is_idle",
                "let tail =",
                "let head = self.head.load(Ordering::Relaxed); let tail =",
            ),
        ],
    },
    Mistake {
        name: "gap not checked after it was read",
        model: "gaps::a_gap_against_a_recorder_of_the_slot_before",
        edits: &[(
            SLOT,
            "while_landed",
            "if self.peek() == landed { value } else { None }",
            "value",
        )],
    },
];
