// SPDX-License-Identifier: MIT OR Apache-2.0
//! Series of kernels while threads record, another promotes and a third reads:
//! none falls, none goes, and at the end all that was recorded is in one of them.
#![cfg(not(metrale_loom))]

use metrale_telemetry::Telemetry;
use metrale_telemetry::instrument::Counter;
use metrale_telemetry::kernel::SpanKey;
use metrale_telemetry::runtime::KernelName;
use std::collections::BTreeMap;

/// A second later at each look.
fn clock() -> u64 {
    static LOOKS: Counter = Counter::new();
    LOOKS.add(1);
    LOOKS.get() * 1_000_000_000
}

static TELEMETRY: Telemetry = Telemetry::with_clock(clock);
const KERNELS: u64 = 60;
const RECORDS: u64 = 3_000_000;
const WRITERS: u64 = 2;

fn record(thread: u64) {
    for at in 0..RECORDS {
        // New kernels come all the time, and folds by sums of 2^36 ns.
        let func = 1 + (at * 7 + thread) % (1 + KERNELS * at / RECORDS);
        let ns = if at % 64 == 0 { 1 << 36 } else { func };
        TELEMETRY.instruments().record(SpanKey::Kernel(func << 8), ns);
    }
}

/// Three functions to a name.
fn name_of(func: u64) -> Option<KernelName> {
    Some(format!("kernel {}", (func >> 8) / 3).into())
}

#[test]
fn no_series_falls_while_kernels_are_promoted_and_recorded() {
    TELEMETRY.expose_kernels(8);
    let over = Counter::new();
    let mut before: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut reads = 0u64;
    let mut read = || {
        let series = TELEMETRY.snapshot().kernel_series;
        let now: BTreeMap<_, _> = series
            .into_iter()
            .map(|series| (series.label, (series.total_ns, series.samples)))
            .collect();
        for (label, (ns, samples)) in &before {
            let after = now.get(label).expect("a series stays");
            assert!(after.0 >= *ns && after.1 >= *samples, "{label} fell: {ns} to {}", after.0);
        }
        before = now;
        reads += 1;
    };
    std::thread::scope(|scope| {
        let over = &over;
        for thread in 0..WRITERS {
            scope.spawn(move || {
                record(thread);
                over.add(1);
            });
        }
        scope.spawn(move || {
            while over.get() < WRITERS {
                TELEMETRY.promote_kernels(name_of, str::to_owned);
            }
        });
        while over.get() < WRITERS {
            read();
        }
    });
    read();
    println!("{reads} reads, {} series", before.len());
    assert!(before.len() > 8, "{} series", before.len());
    let kernels = TELEMETRY.instruments().kernels();
    let sum = |of: fn(&(u64, u64)) -> u64| before.values().map(of).sum::<u64>();
    assert_eq!(sum(|(_, samples)| *samples), WRITERS * RECORDS);
    assert_eq!(sum(|(ns, _)| *ns), kernels.iter().map(|kernel| kernel.total_ns).sum::<u64>());
}
