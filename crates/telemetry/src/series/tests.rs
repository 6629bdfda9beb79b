// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which kernels get series, and that no sum falls.

use super::{ExposedKernels, KernelName, KernelSeries, MAX_KERNEL_SERIES, RowKind};
use crate::kernel::{KERNEL_TABLE_SLOTS, KernelInstruments, SpanKey};
use crate::runtime::FIRST_REGION;
use crate::sync::lock;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Handles that end in 7 have no name; four share each of the others.
fn name_of(func: u64) -> Option<KernelName> {
    (func % 10 != 7).then(|| format!("kernel {}", func / 4).into())
}

fn promote(exposed: &ExposedKernels, instruments: &KernelInstruments) {
    exposed.promote(|| u64::MAX, instruments, name_of, str::to_owned);
}

fn read(exposed: &ExposedKernels, instruments: &KernelInstruments) -> Vec<(String, u64, u64)> {
    let tuple = |series: KernelSeries| (series.label, series.total_ns, series.samples);
    let series = exposed.read(instruments).series;
    series.into_iter().map(tuple).collect()
}

#[test]
fn a_promoted_kernel_starts_at_nothing_and_the_past_stays_with_the_others() {
    let (exposed, instruments) = (ExposedKernels::new(), Box::new(KernelInstruments::new()));
    let launch = |func, ns| instruments.record(SpanKey::Kernel(func), ns);
    launch(8, 100);
    launch(40, 10);
    launch(17, 1_000);
    promote(&exposed, &instruments);
    let other = |ns, n| ("other".to_owned(), ns, n);
    assert_eq!(read(&exposed, &instruments), [other(1_110, 3)]);

    exposed.set_top(1);
    promote(&exposed, &instruments);
    launch(8, 5);
    launch(40, 1);
    // The second function of the same kernel counts from its promotion on.
    launch(9, 3);
    let series = |ns, n| ("kernel 2".to_owned(), ns, n);
    assert_eq!(read(&exposed, &instruments), [series(5, 1), other(1_114, 5)]);
    promote(&exposed, &instruments);
    launch(9, 4);
    assert_eq!(read(&exposed, &instruments), [series(9, 2), other(1_114, 5)]);
}

#[test]
fn functions_of_one_name_are_one_of_the_top() {
    let (exposed, instruments) = (ExposedKernels::new(), Box::new(KernelInstruments::new()));
    exposed.set_top(2);
    for func in [8, 9, 10, 12, 16] {
        instruments.record(SpanKey::Kernel(func), 100 - func);
    }
    promote(&exposed, &instruments);
    let labels = read(&exposed, &instruments).into_iter().map(|series| series.0);
    assert_eq!(labels.collect::<Vec<_>>(), ["kernel 2", "kernel 3", "other"]);
}

#[test]
fn promotions_are_a_second_apart() {
    let (exposed, instruments) = (ExposedKernels::new(), Box::new(KernelInstruments::new()));
    exposed.set_top(9);
    for (func, now_ns, series) in [(8, 5, 1), (12, 999_999_999, 1), (16, 1_000_000_005, 3)] {
        instruments.record(SpanKey::Kernel(func), 1);
        exposed.promote(|| now_ns, &instruments, name_of, str::to_owned);
        assert_eq!(read(&exposed, &instruments).len(), series + 1, "{now_ns}");
    }
}

#[test]
fn a_region_has_a_series_beside_a_kernel_of_its_name_and_others_of_its_own() {
    let (exposed, instruments) = (ExposedKernels::new(), Box::new(KernelInstruments::new()));
    let name_of = |func| {
        let name = KernelName::from("sampling");
        let kind = if func < FIRST_REGION { RowKind::Kernel } else { RowKind::Region };
        Some(KernelName { kind, ..name })
    };
    let launch = |func, ns| instruments.record(SpanKey::Kernel(func), ns);
    launch(1, 10);
    launch(FIRST_REGION, 100);
    exposed.set_top(5);
    exposed.promote(|| u64::MAX, &instruments, name_of, str::to_owned);
    launch(1, 3);
    launch(FIRST_REGION, 50);
    let found: Vec<_> = exposed
        .read(&instruments)
        .series
        .into_iter()
        .map(|series| (series.kind, series.label, series.total_ns))
        .collect();
    let of = |kind, label: &str, ns| (kind, label.to_owned(), ns);
    let expected = [
        of(RowKind::Region, "sampling", 50),
        of(RowKind::Kernel, "sampling", 3),
        of(RowKind::Kernel, "other", 10),
        of(RowKind::Region, "other", 100),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_promoter_does_not_wait_for_a_reader() {
    let (exposed, instruments) = (ExposedKernels::new(), Box::new(KernelInstruments::new()));
    exposed.set_top(9);
    instruments.record(SpanKey::Kernel(8), 1);
    let reader = lock(&exposed.list);
    promote(&exposed, &instruments);
    assert!(reader.series.is_empty());
    drop(reader);
    promote(&exposed, &instruments);
    assert_eq!(read(&exposed, &instruments).len(), 2);
}

#[test]
fn labels_are_frozen_unique_and_never_that_of_the_others() {
    let (exposed, instruments) = (ExposedKernels::new(), Box::new(KernelInstruments::new()));
    exposed.set_top(usize::MAX);
    for func in [1, 2, 3] {
        instruments.record(SpanKey::Kernel(func), func);
    }
    let name_of = |func: u64| Some(if func == 1 { "a" } else { "b" }.into());
    exposed.promote(|| u64::MAX, &instruments, name_of, |_| "other".to_owned());
    exposed.promote(|| u64::MAX, &instruments, name_of, |_| "changed".to_owned());
    instruments.record(SpanKey::Kernel(1), 50);
    instruments.record(SpanKey::Kernel(2), 60);
    let expected = [("other'".to_owned(), 110, 2), ("other".to_owned(), 6, 3)];
    assert_eq!(read(&exposed, &instruments), expected);
}

#[test]
fn there_are_never_more_series_than_the_most() {
    let (exposed, instruments) = (ExposedKernels::new(), Box::new(KernelInstruments::new()));
    exposed.set_top(usize::MAX);
    for func in 1..=KERNEL_TABLE_SLOTS as u64 {
        instruments.record(SpanKey::Kernel(func << 8), func);
        exposed.promote(
            || u64::MAX,
            &instruments,
            |func| Some(func.to_string().into()),
            str::to_owned,
        );
    }
    assert_eq!(read(&exposed, &instruments).len(), MAX_KERNEL_SERIES + 1);
}

proptest! {
    #[test]
    fn no_sum_ever_falls_none_goes_away_and_all_is_in_one_of_them(
        launches in prop::collection::vec((1..60u64, 1..1_000u64), 1..100),
        tops in prop::collection::vec(0..6usize, 1..20),
    ) {
        let (exposed, instruments) = (ExposedKernels::new(), Box::new(KernelInstruments::new()));
        let mut before: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let mut sum = 0;
        for (at, (func, ns)) in launches.into_iter().enumerate() {
            instruments.record(SpanKey::Kernel(func), ns);
            sum += ns;
            if at % 3 == 0 {
                exposed.set_top(tops[at / 3 % tops.len()]);
                promote(&exposed, &instruments);
            }
            let series = read(&exposed, &instruments);
            prop_assert_eq!(series.iter().map(|series| series.1).sum::<u64>(), sum);
            let count = series.len();
            let now: BTreeMap<_, _> = series.into_iter().map(|(label, ns, n)| (label, (ns, n))).collect();
            prop_assert_eq!(now.len(), count, "a label twice");
            for (label, (ns, n)) in before {
                let after = now.get(&label).copied().unwrap_or_default();
                prop_assert!(after.0 >= ns && after.1 >= n, "{} fell", label);
            }
            before = now;
        }
    }
}
