// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whatever spans are lost: each row and each lane says that it misses some, and
//! no error of an estimate is too small. Every step is armed, so that nothing but
//! losses can put an estimate wrong.

use crate::served::Served;
use metrale_telemetry::kernel::{LANE_DECODE, LANE_PREFILL, LANES, SpanKey, SpanPoll};
use metrale_telemetry::{Sampling, TelemetryConfig};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What becomes of a span.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Lands,
    Fails,
    IsDropped,
    /// It begins when its step is over; of a lane: it never does.
    ComesLate,
}

/// Which fates a case knows besides landing.
#[derive(Clone, Copy, Debug)]
struct Faults {
    lanes_lose: bool,
    kernels_lose: bool,
    kernels_come_late: bool,
}

fn faults() -> impl Strategy<Value = Faults> {
    any::<[bool; 3]>().prop_map(|[lanes_lose, kernels_lose, kernels_come_late]| Faults {
        lanes_lose,
        kernels_lose,
        kernels_come_late,
    })
}

fn fate(loses: bool, comes_late: bool) -> impl Strategy<Value = Fate> {
    let fates = [Fate::Fails, Fate::IsDropped, Fate::ComesLate];
    (0..200usize).prop_map(move |number| match fates.get(number) {
        Some(Fate::ComesLate) if comes_late => Fate::ComesLate,
        Some(fate) if loses && *fate != Fate::ComesLate => *fate,
        _ => Fate::Lands,
    })
}

/// A lane of a step: its kernels follow each other, and some idle time.
#[derive(Clone, Debug)]
struct Part {
    fate: Fate,
    kernels: Vec<(u64, u64, Fate)>,
    idle_ns: u64,
}

/// A kernel that is lost may have been a long one.
fn kernel(faults: Faults) -> impl Strategy<Value = (u64, u64, Fate)> {
    let fate = fate(faults.kernels_lose, faults.kernels_come_late);
    (1..4u64, 1..1u64 << 16, 1..4_000u64, fate).prop_map(|(func, ns, times, fate)| {
        let times = if fate == Fate::Lands { 1 } else { times };
        (func, ns * times, fate)
    })
}

prop_compose! {
    fn part(faults: Faults)(
        fate in fate(faults.lanes_lose, faults.kernels_come_late),
        kernels in prop::collection::vec(kernel(faults), 0..6),
        idle_ns in 0..1u64 << 14,
    ) -> Part {
        Part { fate, kernels, idle_ns }
    }
}

#[derive(Default)]
struct Truth {
    lane_ns: u64,
    kernel_ns: BTreeMap<u64, u64>,
    lost_spans: u64,
    /// Spans of kernels that are missing from the estimates.
    missing: u64,
    /// Launches that were lost where the lane itself never began: nobody knows what
    /// they took.
    unknown: u64,
}

fn serve(served: &mut Served, steps: &[Vec<Part>]) -> (BTreeMap<usize, Truth>, BTreeMap<u64, u64>) {
    let mut truth: BTreeMap<usize, Truth> = BTreeMap::new();
    let mut lost: BTreeMap<u64, u64> = BTreeMap::new();
    for parts in steps {
        let step = served.telemetry.step_begin();
        let (mut at_ns, mut late) = (0, Vec::new());
        for (part, lane) in parts.iter().zip([LANE_PREFILL, LANE_DECODE]) {
            let truth = truth.entry(lane).or_default();
            let busy_ns: u64 = part.kernels.iter().map(|kernel| kernel.1).sum();
            let lane_ns = busy_ns + part.idle_ns;
            let key = (SpanKey::Lane(lane), lane, 1);
            truth.lane_ns += if part.fate == Fate::ComesLate { 0 } else { lane_ns };
            match part.fate {
                Fate::Lands => served.span(step, key, at_ns, SpanPoll::Ready(lane_ns)),
                Fate::Fails => served.span(step, key, at_ns, SpanPoll::Failed),
                Fate::IsDropped => served.drop_span(step, key.0, lane),
                Fate::ComesLate => {}
            }
            let is_lost = matches!(part.fate, Fate::Fails | Fate::IsDropped);
            truth.lost_spans += u64::from(is_lost);
            let mut kernel_at_ns = at_ns;
            for &(func, ns, fate) in &part.kernels {
                *truth.kernel_ns.entry(func).or_default() += ns;
                truth.missing += u64::from(fate != Fate::Lands || part.fate == Fate::ComesLate);
                let key = (SpanKey::Kernel(func), lane, 1);
                match fate {
                    Fate::Lands => served.span(step, key, kernel_at_ns, SpanPoll::Ready(ns)),
                    Fate::Fails => served.span(step, key, kernel_at_ns, SpanPoll::Failed),
                    Fate::IsDropped => served.drop_span(step, key.0, lane),
                    Fate::ComesLate => late.push((key, kernel_at_ns, ns)),
                }
                let is_lost = matches!(fate, Fate::Fails | Fate::IsDropped);
                truth.unknown += u64::from(is_lost && part.fate == Fate::ComesLate);
                *lost.entry(func).or_default() += u64::from(is_lost);
                kernel_at_ns += ns as i64;
            }
            at_ns += lane_ns as i64;
        }
        served.close(step);
        for (key, at_ns, ns) in late {
            served.span(step, key, at_ns, SpanPoll::Ready(ns));
        }
        served.harvest();
    }
    (truth, lost)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    #[test]
    fn no_error_is_too_small_and_who_misses_spans_says_so(
        (faults, steps) in faults().prop_flat_map(|faults| {
            let step = prop::collection::vec(part(faults), 2);
            (Just(faults), prop::collection::vec(step, 100..140))
        }),
    ) {
        let mut served = Served::new();
        let config = TelemetryConfig { every: 1, sampling: Sampling::EveryNth, ..Default::default() };
        served.telemetry.configure(config).expect("it is valid");
        let (truth, lost) = serve(&mut served, &steps);
        let taken = served.named_snapshot();
        for lane in [LANE_PREFILL, LANE_DECODE] {
            let (truth, found) = (&truth[&lane], &taken.lanes[lane]);
            prop_assert_eq!(found.lost_spans, truth.lost_spans);
            prop_assert_eq!(found.estimate.lost_spans, truth.lost_spans);
            let told = found.estimate.lost_spans + found.estimate.lost_steps + found.estimate.left_out;
            prop_assert!(told > 0 || truth.lost_spans + truth.missing == 0);
        }
        let mut claims = 0;
        for row in &taken.kernels {
            let func: u64 = row.name.as_deref().and_then(|name| name.parse().ok()).expect("a number");
            prop_assert_eq!(row.lost_spans, lost[&func]);
            for own in &row.lanes {
                let lane = LANES.iter().position(|lane| *lane == own.lane).expect("one of the three");
                let (truth, estimate) = (&truth[&lane], own.estimate);
                let Some(error) = estimate.error else {
                    continue;
                };
                claims += 1;
                prop_assert_eq!((truth.lost_spans, truth.unknown), (0, 0));
                let ns = truth.kernel_ns[&func] as f64;
                prop_assert!((estimate.total_ns - ns).abs() <= 2.0 * error.total_ns + 1.0, "{own:?}, {ns}");
                let share = ns / truth.lane_ns as f64;
                prop_assert!((estimate.share - share).abs() <= 2.0 * error.share + 1e-9, "{own:?}, {share}");
                prop_assert!(error.total_ns > 0.0 || truth.missing == 0, "{own:?}");
            }
        }
let is_unknown = truth.values().all(|truth| truth.unknown > 0);
        prop_assert!(claims > 0 || faults.lanes_lose || is_unknown);
    }
}
