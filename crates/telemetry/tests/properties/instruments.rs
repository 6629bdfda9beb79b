// SPDX-License-Identifier: MIT OR Apache-2.0
//! The instruments hold what was put in, exactly.

use metrale_telemetry::kernel::{KernelInstruments, SpanKey};
use metrale_telemetry::runtime::KernelTable;
use metrale_telemetry::runtime::PackedCells;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Durations of every magnitude, the last too large for a one-word cell.
fn ns() -> impl Strategy<Value = u64> {
    prop_oneof![0..1000u64, 0..1u64 << 37, (1u64 << 37)..1 << 50]
}

fn key() -> impl Strategy<Value = SpanKey> {
    prop_oneof![
        (0..5usize).prop_map(SpanKey::Lane),
        Just(SpanKey::Lane(usize::MAX)),
        (0..20u64).prop_map(|func| SpanKey::Kernel(func << 8)),
    ]
}

proptest! {
    #[test]
    fn a_cell_holds_count_and_sum(
        times in 0..70_000u64,
        value in 0..1u64 << 37,
        wide in prop::collection::vec(ns(), 0..5),
    ) {
        let cells = Box::new(PackedCells::<2>::new());
        (0..times).for_each(|_| cells.add(1, value));
        wide.iter().for_each(|&ns| cells.add_wide(1, ns));
        let mut read = Vec::new();
        prop_assert!(cells.read(|_, count, sum| read.push((count, sum))));
        let expected = (times + wide.len() as u64, times * value + wide.iter().sum::<u64>());
        prop_assert_eq!(read, [(0, 0), expected]);
    }

    #[test]
    fn a_table_keeps_the_first_kernels_and_refuses_the_rest(
        samples in prop::collection::vec((0..24u64, ns()), 0..200),
        spread in prop_oneof![Just(1u64), Just(256), Just(0x9e37_79b9_7f4a_7c15)],
    ) {
        let table = KernelTable::<32>::new();
        let mut rows: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (func, ns) in samples {
            let func = func.wrapping_mul(spread);
            let kept = func != 0 && (rows.contains_key(&func) || rows.len() < 16);
            prop_assert_eq!(table.record(func, ns), kept);
            if kept {
                let (total, samples) = rows.entry(func).or_default();
                (*total, *samples) = (*total + ns, *samples + 1);
            }
        }
        let mut read = table.rows();
        read.sort_unstable();
        let rows: Vec<_> = rows.into_iter().map(|(func, (ns, n))| (func, ns, n)).collect();
        prop_assert_eq!(read, rows);
    }

    #[test]
    fn spans_are_filed_by_lane_and_kernel(
        spans in prop::collection::vec((key(), ns()), 0..200),
    ) {
        let instruments = Box::new(KernelInstruments::new());
        spans.iter().for_each(|&(key, ns)| instruments.record(key, ns));
        for lane in 0..3 {
            let own = || spans.iter().filter(|span| span.0 == SpanKey::Lane(lane));
            let read = instruments.lane[lane].snapshot();
            let sum: u64 = own().map(|span| span.1).sum();
            prop_assert_eq!((read.count(), read.sum_ns()), (own().count() as u64, sum));
        }
        let mut rows: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (key, ns) in &spans {
            if let SpanKey::Kernel(func @ 1..) = key {
                let (total, samples) = rows.entry(*func).or_default();
                (*total, *samples) = (*total + ns, *samples + 1);
            }
        }
        let mut read: Vec<_> = instruments
            .kernels()
            .into_iter()
            .map(|row| (row.func, (row.total_ns, row.samples)))
            .collect();
        read.sort_unstable();
        prop_assert_eq!(read, rows.into_iter().collect::<Vec<_>>());
        let none = spans.iter().filter(|span| span.0 == SpanKey::Kernel(0));
        prop_assert_eq!(instruments.table_full.get(), none.count() as u64);
    }
}
