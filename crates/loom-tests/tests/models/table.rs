// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row of the kernel table: claimed once, whoever comes.

use metrale_loom_tests::{Bound, beside, model};
use metrale_telemetry::runtime::KernelTable;
use std::sync::Arc;

const NS: u64 = 7;

fn recorder<const PLACES: usize>(
    table: &Arc<KernelTable<PLACES>>,
    func: u64,
) -> impl FnOnce() -> bool + use<PLACES> {
    beside(table, move |table| table.record(func, NS))
}

#[test]
fn a_row_claimed_by_two_at_once() {
    model(Bound::None, || {
        let table = Arc::new(KernelTable::<2>::new());
        let threads = [recorder(&table, 5), recorder(&table, 5)];
        assert!(threads.into_iter().all(|join| join()));
        assert_eq!(table.rows(), [(5, 2 * NS, 2)]);
    });
}

#[test]
fn a_row_claimed_beside_a_reader() {
    model(Bound::Preemptions(3), || {
        let table = Arc::new(KernelTable::<2>::new());
        let threads = [recorder(&table, 5), recorder(&table, 5)];
        // The two samples fold, and a reader that gives up on an exact copy may
        // read them torn: `cells` has the models of that.
        assert!(table.rows().iter().all(|row| row.0 == 5), "a row without its key");
        assert!(threads.into_iter().all(|join| join()));
        assert_eq!(table.rows(), [(5, 2 * NS, 2)]);
    });
}

#[test]
fn the_last_row_goes_to_one_of_two_kernels() {
    model(Bound::None, || {
        let table = Arc::new(KernelTable::<2>::new());
        let threads = [recorder(&table, 5), recorder(&table, 6)];
        let [five, six] = threads.map(|join| join());
        assert!(five != six, "one row is left, and one must get it");
        let func = if five { 5 } else { 6 };
        assert_eq!(table.rows(), [(func, NS, 1)]);
    });
}

#[test]
fn two_kernels_that_meet_at_one_place_get_a_row_each() {
    // Both hash to place 2 of 4.
    const FUNCS: [u64; 2] = [1, 6];
    model(Bound::Preemptions(3), || {
        let table = Arc::new(KernelTable::<4>::new());
        let threads = FUNCS.map(|func| recorder(&table, func));
        assert!(threads.into_iter().all(|join| join()));
        let mut rows = table.rows();
        rows.sort_unstable();
        assert_eq!(rows, FUNCS.map(|func| (func, NS, 1)));
    });
}
