// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one-word cell and its fold. Under the checker a cell folds at its second
//! observation.

use metrale_loom_tests::{Bound, beside, model};
use metrale_telemetry::runtime::PackedCells;
use std::sync::Arc;

const NS: u64 = 7;

type Cell = Arc<PackedCells<1>>;

/// What the cell holds, if the reader got an exact copy.
fn read(cell: &Cell) -> Option<(u64, u64)> {
    let mut pair = (0, 0);
    let exact = cell.read(|_, count, sum| pair = (count, sum));
    exact.then_some(pair)
}

/// Reads beside observers: between `least` and `most`, never torn, never back.
fn watch(cell: &Cell, times: usize, least: u64, most: u64) {
    let mut last = least;
    for (count, sum) in (0..times).filter_map(|_| read(cell)) {
        assert_eq!(sum, NS * count, "torn");
        assert!(count >= last, "{count} after {last}");
        assert!(count <= most, "{count} of {most}");
        last = count;
    }
}

fn observer(cell: &Cell, times: usize) -> impl FnOnce() + use<> {
    beside(cell, move |cell| (0..times).for_each(|_| cell.add(0, NS)))
}

#[test]
fn a_fold_against_a_reader() {
    model(Bound::Preemptions(3), || {
        let cell = Cell::default();
        cell.add(0, NS);
        let adds = observer(&cell, 2);
        watch(&cell, 2, 1, 3);
        adds();
        assert_eq!(read(&cell), Some((3, 3 * NS)));
    });
}

#[test]
fn two_folds_against_a_reader() {
    model(Bound::Preemptions(3), || {
        let cell = Cell::default();
        let adds = [observer(&cell, 2), observer(&cell, 2)];
        watch(&cell, 1, 0, 4);
        adds.into_iter().for_each(|join| join());
        assert_eq!(read(&cell), Some((4, 4 * NS)));
    });
}

#[test]
fn a_wide_value_against_a_reader_and_a_fold() {
    model(Bound::Preemptions(3), || {
        let cell = Cell::default();
        let adds = observer(&cell, 2);
        let wide = beside(&cell, |cell| cell.add_wide(0, NS));
        watch(&cell, 1, 0, 3);
        adds();
        wide();
        assert_eq!(read(&cell), Some((3, 3 * NS)));
    });
}

#[test]
fn a_sum_past_its_most_against_a_reader_and_another() {
    model(Bound::Preemptions(3), || {
        let cell = Cell::default();
        cell.add_wide(0, u64::MAX - 1);
        let adds = [NS, u64::MAX].map(|ns| beside(&cell, move |cell| cell.add_wide(0, ns)));
        if let Some((count, sum)) = read(&cell) {
            let least = if count == 1 { u64::MAX - 1 } else { u64::MAX };
            assert_eq!(sum, least, "it fell, at {count}");
        }
        adds.into_iter().for_each(|join| join());
        assert_eq!(read(&cell), Some((3, u64::MAX)));
    });
}
