// SPDX-License-Identifier: MIT OR Apache-2.0
//! The classic mistakes of such a protocol, as small edits of the sources. A set
//! of models that lets one of them pass proves nothing.

/// A mistake and the model that is expected to catch it.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) name: &'static str,
    pub(super) model: &'static str,
    pub(super) edits: &'static [Edit],
}

/// A file of the telemetry crate, a function in it, code that it holds once (told
/// by its tokens, so any layout will do), and what stands there instead.
type Edit = (&'static str, &'static str, &'static str, &'static str);

/// The source that an edit names.
pub(super) fn path(file: &str) -> String {
    format!("crates/telemetry/src/{file}")
}

const RING: &str = "kernel/ring.rs";
const PASS: &str = "kernel/pass.rs";
const SLOT: &str = "kernel/slot.rs";
const TABLE: &str = "kernel/table.rs";
const TOGETHER: &str = "kernel/estimates/together.rs";
const PACKED: &str = "instrument/packed.rs";

/// Every mistake.
pub(super) const ALL: &[Mistake] = &[
    Mistake {
        name: "open before the start is recorded",
        model: "recorders::a_span_may_end_on_another_thread",
        edits: &[
            (RING, "take", "slot.open(lap);", ""),
            (
                RING,
                "take",
                "if self.ops.record",
                "slot.open(lap); if self.ops.record",
            ),
        ],
    },
    Mistake {
        name: "close before the end is recorded",
        model: "tail::a_closed_span_is_landed_as_it_was_left",
        edits: &[
            (RING, "end_into", "slot.close(lap, stream);", ""),
            (
                RING,
                "end_into",
                "if self.ops.record",
                "slot.close(lap, stream); if self.ops.record",
            ),
        ],
    },
    Mistake {
        name: "describe after open",
        model: "gaps::a_gap_against_an_end_on_another_thread",
        edits: &[
            (RING, "take", "slot.describe(packed, self.losses());", ""),
            (
                RING,
                "take",
                "slot.open(lap);",
                "slot.open(lap); slot.describe(packed, self.losses());",
            ),
        ],
    },
    Mistake {
        name: "free before the poll",
        model: "harvesters::two_harvesters_land_each_span_once",
        edits: &[
            (PASS, "land", "slot.settle(word.lap(), true);", ""),
            (
                PASS,
                "poll",
                "let answer =",
                "slot.settle(word.lap(), true); let answer =",
            ),
        ],
    },
    Mistake {
        name: "free before the gap is read",
        model: "gaps::a_gap_against_a_recorder_of_its_own_slot",
        edits: &[
            (PASS, "land", "slot.settle(word.lap(), true);", ""),
            (
                PASS,
                "land",
                "let gap_ns =",
                "slot.settle(word.lap(), true); let gap_ns =",
            ),
        ],
    },
    Mistake {
        name: "passes that do not exclude each other",
        model: "harvesters::two_harvesters_of_spans_at_rest",
        edits: &[(
            PASS,
            "pass",
            "let Some(mut guard) = try_lock(&self.pass)",
            "let own = crate::sync::Mutex::new(Pass::new(0)); let Some(mut guard) = try_lock(&own)",
        )],
    },
    Mistake {
        name: "claim by load and store",
        model: "recorders::two_recorders_take_one_slot_again_and_again",
        edits: &[(
            SLOT,
            "claim",
            "match self.exchange(seen, Word::new(STARTING, lap), Ordering::Acquire)",
            "let found = self.word();
            let free = found.state() == State::Free && found.lap() < lap;
            if free { self.word.store(Word::new(STARTING, lap).0, Ordering::Release); }
            match if free { Ok(()) } else { Err(found) }",
        )],
    },
    Mistake {
        name: "take for the end by load and store",
        model: "recorders::of_two_ends_of_one_span_one_records",
        edits: &[(
            SLOT,
            "begin_end",
            "self.exchange(seen, Word::new(ENDING, seen.lap()), Ordering::Acquire)",
            "{ fence(Ordering::Acquire);
            self.word.store(Word::new(ENDING, seen.lap()).0, Ordering::Release);
            Transition::Made }",
        )],
    },
    Mistake {
        name: "give up by load and store",
        model: "tokens::a_cancel_and_an_end_of_one_span",
        edits: &[(
            SLOT,
            "give_up",
            "self.exchange(seen, Word::new(FREE, seen.lap()), Ordering::Relaxed)",
            "({ fence(Ordering::Acquire);
            self.word.store(Word::new(FREE, seen.lap()).0, Ordering::Release);
            Transition::Made })",
        )],
    },
    Mistake {
        name: "generation not bumped",
        model: "tokens::a_late_end_against_the_slots_next_span",
        edits: &[
            (
                RING,
                "take",
                "self.turns.of(ticket)",
                "(self.turns.of(ticket).0, 1)",
            ),
            (SLOT, "claim", "|| found.lap() >= lap", ""),
        ],
    },
    Mistake {
        name: "generation not compared",
        model: "tokens::a_late_end_against_the_slots_next_span",
        edits: &[(
            RING,
            "end_into",
            "is_it && slot.begin_end",
            "(is_it || seen.state() == State::Open) && slot.begin_end",
        )],
    },
    Mistake {
        name: "reclaim in the middle of a record",
        model: "tokens::a_reclaim_never_takes_a_span_whose_end_is_being_recorded",
        edits: &[(
            PASS,
            "visit_other",
            "State::Busy => false",
            "State::Busy => self.reclaim(index, slot, word)",
        )],
    },
    Mistake {
        name: "tail moved past turns that nobody has taken yet",
        model: "tail::a_recorder_between_ticket_and_claim_is_not_left_behind",
        edits: &[(PASS, "visit_other", "word.lap() < lap", "false")],
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
            "self.exchange(seen, Word::new(FREE, lap), Ordering::Relaxed)",
            "({ let _ = seen; Transition::Made })",
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
    Mistake {
        name: "row claimed without a second look",
        model: "table::a_row_claimed_by_two_at_once",
        edits: &[
            (TABLE, "claim", "match self.probe(func)", "match found"),
            (
                TABLE,
                "claim",
                "let mut used =",
                "let found = self.probe(func); let mut used =",
            ),
        ],
    },
    Mistake {
        name: "row shown without its key",
        model: "table::a_row_claimed_beside_a_reader",
        edits: &[(TABLE, "each_row", "samples > 0 && func != 0", "samples > 0")],
    },
    Mistake {
        name: "fold counted before it is made",
        model: "cells::a_fold_against_a_reader",
        edits: &[
            (PACKED, "folding", "work();", ""),
            (
                PACKED,
                "folding",
                "self.done.fetch_add(1, Ordering::Release);",
                "self.done.fetch_add(1, Ordering::Release); work();",
            ),
        ],
    },
    Mistake {
        name: "copy not checked after it was read",
        model: "cells::a_fold_against_a_reader",
        edits: &[(
            PACKED,
            "try_copy",
            "self.started.load(Ordering::Relaxed) == done",
            "done == done.min(self.started.load(Ordering::Relaxed))",
        )],
    },
    Mistake {
        name: "a copy of words that is not checked again",
        model: "together::a_change_against_a_reader",
        edits: &[(
            TOGETHER,
            "read",
            "(self.version.load(Ordering::Relaxed) == before).then_some(value)",
            "Some(value)",
        )],
    },
    Mistake {
        name: "two writers of words at once",
        model: "together::two_writers_lose_nothing",
        edits: &[(
            TOGETHER,
            "claim",
            ".compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed).is_ok()",
            ".swap(version + 1, Ordering::Acquire) > 0 || version == 0",
        )],
    },
];
