// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots of a histogram while threads hammer it: never torn, never less
//! than the one before. `METRALE_SNAPSHOTS` says how many (default 50,000):
//! `METRALE_SNAPSHOTS=10000000 cargo test --release -p metrale-telemetry --test torn`.
#![cfg(not(metrale_loom))]

use metrale_telemetry::instrument::{Counter, NanosHistogram};
use metrale_telemetry::runtime::bucket_index;

/// One value to a bucket, so that a bucket's sum follows from its count: the
/// least, two in the middle, one whose cell is folded by its sum, and one that
/// goes past the cells.
const VALUES: [u64; 5] = [7, 5_000, 1 << 20, 1 << 36, 1 << 40];
const WRITERS: usize = 3;

/// Ends the writers also where a check fails.
struct Stop<'a>(&'a Counter);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.add(1);
    }
}

#[test]
fn no_snapshot_is_torn_under_hammering_writers() {
    static HISTOGRAM: NanosHistogram = NanosHistogram::new();
    let asked = std::env::var("METRALE_SNAPSHOTS").ok();
    let snapshots: u64 = asked.map_or(50_000, |asked| asked.parse().expect("a number"));
    let stop = Counter::new();
    std::thread::scope(|scope| {
        let stop = Stop(&stop);
        for thread in 0..WRITERS {
            let stop = stop.0;
            scope.spawn(move || {
                let mut at = thread;
                while stop.get() == 0 {
                    // Every value of the last kind is a fold: few of them.
                    let most = if at % 4096 == 0 { 5 } else { 4 };
                    HISTOGRAM.observe(VALUES[at % most]);
                    at += 1;
                }
            });
        }
        let mut before = [0; VALUES.len()];
        for _ in 0..snapshots {
            let snapshot = HISTOGRAM.snapshot();
            assert!(snapshot.exact);
            for bucket in snapshot.buckets {
                let value = VALUES.iter().position(|&ns| bucket_index(ns) == bucket.index);
                let value = value.expect("one of the values");
                let sum = u128::from(bucket.count) * u128::from(VALUES[value]);
                assert_eq!(bucket.sum_ns, sum as u64, "torn, at {} ns", VALUES[value]);
                assert!(bucket.count >= before[value], "went back, at {} ns", VALUES[value]);
                before[value] = bucket.count;
            }
        }
        println!("{snapshots} snapshots, {} observations beside them", before.iter().sum::<u64>());
        assert!(before.iter().all(|&count| count > 0), "{before:?}");
    });
}
