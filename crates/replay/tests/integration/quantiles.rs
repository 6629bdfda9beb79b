// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far the histogram's quantiles are off on the kernels of recorded
//! servers, and what it takes for that, beside hdrhistogram.

use crate::common::recorded;
use metrale_replay::trace::WorkKind;
use metrale_telemetry::instrument::NanosHistogram;

/// Range and digits of the comparison: 1 ns to 128 s, two digits.
fn peer() -> hdrhistogram::Histogram<u64> {
    hdrhistogram::Histogram::new_with_bounds(1, 128_000_000_000, 2).expect("valid bounds")
}

#[test]
fn quantiles_of_recorded_kernels_are_within_one_and_a_half_per_cent() {
    for recorded in recorded() {
        let (name, trace) = (recorded.name, recorded.trace());
        let is_kernel = |kind| matches!(kind, WorkKind::Kernel(_));
        let kernels = trace.work.iter().filter(|work| is_kernel(work.kind));
        let mut exact: Vec<u64> = kernels.map(|work| work.duration_ns).collect();
        let (ours, mut theirs) = (NanosHistogram::new(), peer());
        for &ns in &exact {
            ours.observe(ns);
            theirs.record(ns).expect("within the bounds");
        }
        exact.sort_unstable();
        let ours = ours.snapshot();
        for q in [0.5, 0.9, 0.99] {
            let rank = (q * exact.len() as f64).ceil() as usize;
            let truth = exact[rank - 1] as f64;
            let off = |read: u64| (read as f64 / truth - 1.0).abs();
            let read = off(ours.quantile(q).expect("not empty"));
            let peer = off(theirs.value_at_quantile(q));
            println!(
                "{name:<32} p{:<3} {truth:>9} ns, off by {:.2} %, hdrhistogram by {:.2} %",
                q * 100.0,
                100.0 * read,
                100.0 * peer
            );
            assert!(read <= 0.015, "{name}, p{}: {read}", q * 100.0);
        }
    }
}

#[test]
fn the_histogram_takes_three_quarters_of_its_peers_memory() {
    let ours = size_of::<NanosHistogram>();
    let counts = peer().distinct_values() * size_of::<u64>();
    let theirs = counts + size_of::<hdrhistogram::Histogram<u64>>();
    println!("{ours} bytes, hdrhistogram {theirs}");
    assert!(4 * ours <= 3 * theirs, "{ours} of {theirs}");
}
