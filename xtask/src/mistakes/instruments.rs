// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mistakes of what spans are counted in.

use super::{Mistake, mistake};

const TABLE: &str = "crates/telemetry/src/kernel/table.rs";
const PACKED: &str = "crates/telemetry/src/instrument/packed.rs";

#[rustfmt::skip]
pub(super) const ALL: &[Mistake] = &[
    mistake("row claimed without a second look", "table::a_row_claimed_by_two_at_once", &[
        (TABLE, "claim", "match self.probe(func)", "match found"),
        (TABLE, "claim", "let mut used =", "let found = self.probe(func); let mut used ="),
    ]),
    mistake("row shown without its key", "table::a_row_claimed_beside_a_reader", &[
        (TABLE, "each_row", "samples > 0 && func != 0", "samples > 0"),
    ]),
    mistake("fold counted before it is made", "cells::a_fold_against_a_reader", &[
        (PACKED, "folding", "work();", ""),
        (PACKED, "folding", "self.done.fetch_add(1, Ordering::Release);",
            "self.done.fetch_add(1, Ordering::Release); work();"),
    ]),
    mistake("copy not checked after it was read", "cells::a_fold_against_a_reader", &[
        (PACKED, "try_copy", "self.started.load(Ordering::Relaxed) == done",
            "done == done.min(self.started.load(Ordering::Relaxed))"),
    ]),
];
