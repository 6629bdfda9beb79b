// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mistakes of what spans are counted in.

use super::Mistake;

const TABLE: &str = "kernel/table.rs";
const PACKED: &str = "instrument/packed.rs";

pub(super) const ALL: &[Mistake] = &[
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
];
