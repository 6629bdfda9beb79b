// SPDX-License-Identifier: MIT OR Apache-2.0
//! The classic mistakes of such a protocol, as small patches of the sources. A
//! set of models that lets one of them pass proves nothing.

use crate::error::{Error, Result};

/// A mistake and the model that is expected to catch it.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) name: &'static str,
    pub(super) edits: &'static [Edit],
    pub(super) model: &'static str,
}

/// Replaces a text that occurs once in a file.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) path: &'static str,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
}

impl Edit {
    /// The file's text with this edit made.
    pub(super) fn apply(&self, text: &str) -> Result<String> {
        let found = text.matches(self.from).count();
        if found == 1 {
            return Ok(text.replacen(self.from, self.to, 1));
        }
        let (file, text) = (self.path.to_owned(), self.from.to_owned());
        Err(Error::Patch { file, text, found })
    }
}

const RING: &str = "crates/telemetry/src/kernel/ring.rs";
const PASS: &str = "crates/telemetry/src/kernel/pass.rs";
const SLOT: &str = "crates/telemetry/src/kernel/slot.rs";
const TABLE: &str = "crates/telemetry/src/kernel/table.rs";
const TOGETHER: &str = "crates/telemetry/src/kernel/estimates/together.rs";
const PACKED: &str = "crates/telemetry/src/instrument/packed.rs";

const fn edit(path: &'static str, from: &'static str, to: &'static str) -> Edit {
    Edit { path, from, to }
}

/// Every mistake.
pub(super) const ALL: &[Mistake] = &[
    Mistake {
        name: "open before the start is recorded",
        edits: &[edit(
            RING,
            "        if self.ops.record(index, Edge::Start, stream) {\n            slot.open(lap);",
            "        slot.open(lap);\n        if self.ops.record(index, Edge::Start, stream) {",
        )],
        model: "recorders::a_span_may_end_on_another_thread",
    },
    Mistake {
        name: "close before the end is recorded",
        edits: &[edit(
            RING,
            "        if self.ops.record(index, Edge::End, stream) {\n            slot.close(lap, stream);",
            "        slot.close(lap, stream);\n        if self.ops.record(index, Edge::End, stream) {",
        )],
        model: "tail::a_closed_span_is_landed_as_it_was_left",
    },
    Mistake {
        name: "describe after open",
        edits: &[
            edit(RING, "        slot.describe(packed, self.losses());\n", ""),
            edit(
                RING,
                "            slot.open(lap);\n",
                "            slot.open(lap);\n            slot.describe(packed, self.losses());\n",
            ),
        ],
        model: "gaps::a_gap_against_an_end_on_another_thread",
    },
    Mistake {
        name: "free before the poll",
        edits: &[
            edit(
                PASS,
                "        let answer = match self.pass",
                "        slot.settle(word.lap(), true);\n        let answer = match self.pass",
            ),
            edit(
                PASS,
                "packed, ns, gap_ns);\n        slot.settle(word.lap(), true);\n",
                "packed, ns, gap_ns);\n",
            ),
        ],
        model: "harvesters::two_harvesters_land_each_span_once",
    },
    Mistake {
        name: "free before the gap is read",
        edits: &[
            edit(
                PASS,
                "        let gap_ns = match self.gaps {",
                "        slot.settle(word.lap(), true);\n        let gap_ns = match self.gaps {",
            ),
            edit(
                PASS,
                "packed, ns, gap_ns);\n        slot.settle(word.lap(), true);\n",
                "packed, ns, gap_ns);\n",
            ),
        ],
        model: "gaps::a_gap_against_a_recorder_of_its_own_slot",
    },
    Mistake {
        name: "passes that do not exclude each other",
        edits: &[edit(
            PASS,
            "        let Some(mut guard) = try_lock(&self.pass) else {",
            "        let own = crate::sync::Mutex::new(Pass::new(0));\n        let Some(mut guard) = try_lock(&own) else {",
        )],
        model: "harvesters::two_harvesters_of_spans_at_rest",
    },
    Mistake {
        name: "claim by load and store",
        edits: &[edit(
            SLOT,
            "            match self.exchange(seen, Word::new(STARTING, lap), Ordering::Acquire) {",
            "            let found = self.word();\n            let free = found.state() == State::Free && found.lap() < lap;\n            if free {\n                self.word.store(Word::new(STARTING, lap).0, Ordering::Release);\n            }\n            match if free { Ok(()) } else { Err(found) } {",
        )],
        model: "recorders::two_recorders_take_one_slot_again_and_again",
    },
    Mistake {
        name: "take for the end by load and store",
        edits: &[edit(
            SLOT,
            "self.exchange(seen, Word::new(ENDING, seen.lap()), Ordering::Acquire);",
            "Transition::Made;\n        fence(Ordering::Acquire);\n        self.word.store(Word::new(ENDING, seen.lap()).0, Ordering::Release);",
        )],
        model: "recorders::of_two_ends_of_one_span_one_records",
    },
    Mistake {
        name: "give up by load and store",
        edits: &[edit(
            SLOT,
            "        self.exchange(seen, Word::new(FREE, seen.lap()), Ordering::Relaxed)",
            "        fence(Ordering::Acquire);\n        self.word.store(Word::new(FREE, seen.lap()).0, Ordering::Release);\n        Transition::Made",
        )],
        model: "tokens::a_cancel_and_an_end_of_one_span",
    },
    Mistake {
        name: "generation not bumped",
        edits: &[
            edit(
                RING,
                "let (index, lap) = self.turns.of(ticket);",
                "let (index, lap) = (self.turns.of(ticket).0, 1);",
            ),
            edit(SLOT, " || found.lap() >= lap", ""),
        ],
        model: "tokens::a_late_end_against_the_slots_next_span",
    },
    Mistake {
        name: "generation not compared",
        edits: &[edit(
            RING,
            "(is_it && slot.begin_end(seen)",
            "((is_it || seen.state() == State::Open) && slot.begin_end(seen)",
        )],
        model: "tokens::a_late_end_against_the_slots_next_span",
    },
    Mistake {
        name: "reclaim in the middle of a record",
        edits: &[edit(
            PASS,
            "State::Busy => false,",
            "State::Busy => self.reclaim(index, slot, word),",
        )],
        model: "tokens::a_reclaim_never_takes_a_span_whose_end_is_being_recorded",
    },
    Mistake {
        name: "tail moved past turns that nobody has taken yet",
        edits: &[edit(
            PASS,
            "} else if word.lap() < lap {",
            "} else if false {",
        )],
        model: "tail::a_recorder_between_ticket_and_claim_is_not_left_behind",
    },
    Mistake {
        name: "skip of a slot that nobody was turned away from",
        edits: &[edit(
            SLOT,
            "if self.turned_away.load(Ordering::Relaxed) < lap {",
            "if self.turned_away.load(Ordering::Relaxed) > lap {",
        )],
        model: "tail::a_recorder_between_ticket_and_claim_is_not_left_behind",
    },
    Mistake {
        name: "skip that does not say so in the word",
        edits: &[edit(
            SLOT,
            "        self.exchange(seen, Word::new(FREE, lap), Ordering::Relaxed)",
            "        let _ = seen;\n        Transition::Made",
        )],
        model: "tail::a_recorder_that_oversleeps_a_skip_begins_nothing",
    },
    Mistake {
        name: "head read before the tail",
        edits: &[edit(
            RING,
            "        let tail = self.passed.tail.load(Ordering::Acquire);\n        self.head.load(Ordering::Relaxed) == tail\n",
            "        let head = self.head.load(Ordering::Relaxed);\n        head == self.passed.tail.load(Ordering::Acquire)\n",
        )],
        model: "tail::a_pass_over_an_idle_ring_leaves_nothing_of_its_caller",
    },
    Mistake {
        name: "gap not checked after it was read",
        edits: &[edit(
            SLOT,
            "if self.peek() == landed { value } else { None }",
            "value",
        )],
        model: "gaps::a_gap_against_a_recorder_of_the_slot_before",
    },
    Mistake {
        name: "row claimed without a second look",
        edits: &[
            edit(
                TABLE,
                "        let mut used = lock(&self.used);\n",
                "        let found = self.probe(func);\n        let mut used = lock(&self.used);\n",
            ),
            edit(
                TABLE,
                "        match self.probe(func) {\n            Probe::Row(row) => Some(row),",
                "        match found {\n            Probe::Row(row) => Some(row),",
            ),
        ],
        model: "table::a_row_claimed_by_two_at_once",
    },
    Mistake {
        name: "row shown without its key",
        edits: &[edit(
            TABLE,
            "if samples > 0 && func != 0 {",
            "if samples > 0 {",
        )],
        model: "table::a_row_claimed_beside_a_reader",
    },
    Mistake {
        name: "fold counted before it is made",
        edits: &[
            edit(PACKED, "        work();\n", ""),
            edit(
                PACKED,
                "        self.done.fetch_add(1, Ordering::Release);\n",
                "        self.done.fetch_add(1, Ordering::Release);\n        work();\n",
            ),
        ],
        model: "cells::a_fold_against_a_reader",
    },
    Mistake {
        name: "copy not checked after it was read",
        edits: &[edit(
            PACKED,
            "self.started.load(Ordering::Relaxed) == done\n",
            "done == done.min(self.started.load(Ordering::Relaxed))\n",
        )],
        model: "cells::a_fold_against_a_reader",
    },
    Mistake {
        name: "a copy of words that is not checked again",
        edits: &[edit(
            TOGETHER,
            "            (self.version.load(Ordering::Relaxed) == before).then_some(value)",
            "            Some(value)",
        )],
        model: "together::a_change_against_a_reader",
    },
    Mistake {
        name: "two writers of words at once",
        edits: &[edit(
            TOGETHER,
            "                .compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed)\n                .is_ok();",
            "                .swap(version + 1, Ordering::Acquire) > 0\n                || version == 0;",
        )],
        model: "together::two_writers_lose_nothing",
    },
];
