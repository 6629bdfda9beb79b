// SPDX-License-Identifier: MIT OR Apache-2.0
//! What rows tell of their launches.

use super::{Before, BusyGap, Folded, RowFigures};
use crate::kernel::ENOUGH_STEPS;
use crate::kernel::timeline::NO_ROW;

const NONE: Before = Before { row: 3, ns: 10, gap_ns: None, waited_ns: 0, own_ns: 0 };

fn added(launch: Before, floor_ns: Option<u64>) -> RowFigures {
    let mut folded = Box::new(Folded::new());
    folded.add_launch(&launch, BusyGap::of(floor_ns));
    folded.rows[3]
}

#[test]
fn a_sample_began_on_a_busy_stream_if_the_gap_is_under_half_an_empty_pair() {
    let idle = RowFigures { idle_start_samples: 1, idle_start_ns: 10, ..RowFigures::default() };
    let busy = RowFigures { busy_start_samples: 1, busy_start_ns: 10, ..RowFigures::default() };
    for (gap_ns, floor_ns, expected) in [
        (0, 1, busy),
        (-5, 0, busy),
        (0, 0, idle),
        (499, 1_000, busy),
        (500, 1_000, idle),
        (500, 1_001, busy),
        (i64::MIN, u64::MAX, busy),
        (i64::MAX, u64::MAX, busy),
        (i64::MAX, u64::MAX - 1, idle),
    ] {
        let launch = Before { gap_ns: Some(gap_ns), ..NONE };
        assert_eq!(added(launch, Some(floor_ns)), expected, "{gap_ns}, {floor_ns}");
        assert_eq!(added(launch, None), RowFigures::default());
    }
    assert_eq!(added(NONE, Some(1_000)), RowFigures::default(), "no gap is known");
}

#[test]
fn a_launch_that_its_lane_waited_for_says_so_whatever_is_known_of_its_stream() {
    let launch = Before { waited_ns: 7, ..NONE };
    let found = added(launch, None);
    assert_eq!((found.waits, found.waited_ns), (1, 7));
    let nameless = Before { row: NO_ROW, ..launch };
    let mut folded = Box::new(Folded::new());
    folded.add_launch(&nameless, BusyGap::of(None));
    assert!(folded.rows.iter().all(|row| *row == RowFigures::default()));
}

#[test]
fn latency_is_the_difference_of_means_where_both_have_enough() {
    let figures = |busy: u64, idle: u64| RowFigures {
        busy_start_samples: busy,
        busy_start_ns: busy * 2_000,
        idle_start_samples: idle,
        idle_start_ns: idle * 6_500,
        ..RowFigures::default()
    };
    assert_eq!(figures(ENOUGH_STEPS, 100).latency_ns(), Some(450_000.0));
    assert_eq!(figures(ENOUGH_STEPS - 1, 100).latency_ns(), None);
    assert_eq!(figures(100, ENOUGH_STEPS - 1).latency_ns(), None);
    let other_way = RowFigures { idle_start_ns: 100 * 1_999, ..figures(100, 100) };
    assert_eq!(other_way.latency_ns(), Some(-100.0));
}

#[test]
fn sums_of_rows_saturate() {
    let most = RowFigures {
        busy_start_samples: u64::MAX,
        busy_start_ns: u64::MAX,
        idle_start_samples: u64::MAX,
        idle_start_ns: u64::MAX,
        waits: u64::MAX,
        waited_ns: u64::MAX,
        own_ns: u64::MAX,
    };
    assert_eq!(most.plus(most), most);
}
