// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a scrape allocates: within a bound, however long the process has run,
//! and the harvest's part nothing once the series are there.

use super::asked;
use metrale_telemetry::Telemetry;
use metrale_telemetry::export::MetraleCollector;
use metrale_telemetry::kernel::{KERNEL_TABLE_SLOTS, SpanKey};
use metrale_telemetry::runtime::KernelName;
use metrale_telemetry::snapshot::MAX_KERNEL_SERIES;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::registry::Registry;
use std::cell::Cell;

/// Every histogram bucket and every row used, by so many rounds.
fn fill(telemetry: &Telemetry, rounds: u64) {
    for round in 0..rounds {
        for func in 1..=KERNEL_TABLE_SLOTS as u64 {
            telemetry.instruments().record(SpanKey::Kernel(func << 8), func + round);
        }
        for lane in 0..3 {
            for octave in 0..37 {
                telemetry.instruments().record(SpanKey::Lane(lane), (1 << octave) + round);
            }
        }
    }
}

#[test]
fn a_scrape_allocates_within_a_bound_and_no_more_with_time() {
    static TELEMETRY: Telemetry = Telemetry::with_clock(clock);
    let telemetry = &TELEMETRY;
    let collector = MetraleCollector::new(telemetry).top_kernels(usize::MAX);
    let mut registry = Registry::default();
    let named = collector.label("gpu", "GPU-1").expect("a label");
    named.register(&mut registry).expect("the first");
    let names: Vec<KernelName> = (0..=KERNEL_TABLE_SLOTS)
        .map(|nth| format!("kernel {nth} {}", "x".repeat(80)).into())
        .collect();
    let name_of = |func: u64| Some(names[(func >> 8) as usize].clone());
    fill(telemetry, 1);
    telemetry.promote_kernels(name_of, str::to_owned);
    assert_eq!(telemetry.snapshot().kernel_series.len(), MAX_KERNEL_SERIES + 1);
    let mut page = String::with_capacity(4 << 20);
    let mut scrape = || {
        page.clear();
        asked(|| prometheus_text::encode(&mut page, &registry).expect("a page"))
    };
    let first = scrape();
    fill(telemetry, 200);
    let later = scrape();
    println!("{first} bytes, later {later}");
    assert!(first < 2 << 20, "{first} bytes");
    // A histogram's buckets may have come to more.
    assert!(later < first + (256 << 10), "{later} after {first} bytes");
    let harvest = asked(|| telemetry.promote_kernels(name_of, str::to_owned));
    assert_eq!(harvest, 0, "a promotion of nothing new");
}

/// A second later at each look.
fn clock() -> u64 {
    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
    }
    NOW.set(NOW.get() + 1_000_000_000);
    NOW.get()
}
