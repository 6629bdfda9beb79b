// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words that change together: a reader sees all of a change or nothing of it,
//! and a change that was made is never lost.

use metrale_loom_tests::{Bound, model, spawn};
use metrale_telemetry::kernel::Together;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type Pair = Arc<Together<2>>;

fn raise(pair: &Pair) -> bool {
    pair.change(|words| {
        words.add(0, 1);
        words.add(1, 1);
    })
}

fn read(pair: &Pair) -> Option<u64> {
    let (first, second) = pair.read(|words| (words.get(0), words.get(1)))?;
    assert_eq!(first, second, "torn");
    Some(first)
}

#[test]
fn a_change_against_a_reader() {
    model(Bound::Preemptions(3), || {
        let pair = Pair::default();
        let reader = Arc::clone(&pair);
        let reads = spawn(move || {
            let seen: Vec<u64> = (0..2).filter_map(|_| read(&reader)).collect();
            assert!(seen.is_sorted(), "{seen:?}");
        });
        assert!(raise(&pair) && raise(&pair));
        reads();
        assert_eq!(read(&pair), Some(2));
    });
}

#[test]
fn two_writers_lose_nothing() {
    model(Bound::Preemptions(3), || {
        let pair = Pair::default();
        // Counted outside the model: it must not order the two.
        let made = Arc::new(AtomicU64::new(0));
        let writer = || {
            let (pair, made) = (Arc::clone(&pair), Arc::clone(&made));
            spawn(move || {
                made.fetch_add(u64::from(raise(&pair)), Ordering::Relaxed);
            })
        };
        let writers = [writer(), writer()];
        writers.into_iter().for_each(|join| join());
        let made = made.load(Ordering::Relaxed);
        assert!(made >= 1);
        assert_eq!(read(&pair), Some(made));
    });
}
