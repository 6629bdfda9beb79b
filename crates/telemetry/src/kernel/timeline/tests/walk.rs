// SPDX-License-Identifier: MIT OR Apache-2.0
//! From nanosecond to nanosecond through a step, counting.

use super::is_in;
use super::settle::Settled;
use crate::kernel::timeline::LaneFigures;

/// The figures of one lane, or of all, and how long it waited for each launch.
pub(super) fn figures(settled: &[Settled], lane: Option<u8>) -> (LaneFigures, Vec<(Settled, u64)>) {
    let covers = |span: &Settled, at: i64| span.start_ns <= at && at < span.end_ns;
    let own = |span: &&Settled| span.span.is_lane && is_in(&span.span, lane);
    let lanes: Vec<_> = settled.iter().filter(own).collect();
    let mut launches: Vec<(Settled, u64)> =
        settled.iter().filter(|span| !span.span.is_lane).map(|span| (span.clone(), 0)).collect();
    let mut sums = LaneFigures { steps: u64::from(!lanes.is_empty()), ..LaneFigures::default() };
    let (mut begun, mut idle_ns, mut sum_ns) = (false, 0, 0);
    let starts = settled.iter().map(|span| span.start_ns);
    let ends = settled.iter().map(|span| span.end_ns);
    let (Some(first), Some(last)) = (starts.min(), ends.max()) else {
        return (sums, launches);
    };
    for at in first..=last {
        let in_lane = lanes.iter().any(|span| covers(span, at));
        // The moment before the nanosecond is the lane's also where a part ends.
        let has = |span: &&Settled| (span.start_ns..=span.end_ns).contains(&at);
        let has_moment = lanes.iter().any(has);
        let mut running = 0;
        for (launch, waited_ns) in &mut launches {
            if !is_in(&launch.span, lane) {
                continue;
            }
            // Where the lane's time stands still it can begin as well.
            let is_in_lane = if launch.start_ns == launch.end_ns {
                has_moment
            } else {
                let in_lane = |at| lanes.iter().any(|span| covers(span, at));
                (launch.start_ns..launch.end_ns).any(in_lane)
            };
            if launch.start_ns == at && is_in_lane {
                if !std::mem::replace(&mut begun, true) {
                    sums.lead_ns = idle_ns;
                } else if idle_ns > 0 {
                    (sums.waits, *waited_ns) = (sums.waits + 1, idle_ns);
                    sums.waited_ns += idle_ns;
                }
                idle_ns = 0;
            }
            running += u64::from(covers(launch, at));
        }
        match (in_lane, running) {
            (false, _) => sums.outside_ns += running,
            (true, 0) => (sums.time_ns, idle_ns) = (sums.time_ns + 1, idle_ns + 1),
            (true, _) => {
                (sums.time_ns, sums.busy_ns) = (sums.time_ns + 1, sums.busy_ns + 1);
                sum_ns += running;
            }
        }
    }
    if begun {
        sums.tail_ns = idle_ns;
    } else {
        sums.lead_ns = idle_ns;
    }
    sums.overlap_ns = sum_ns - sums.busy_ns;
    (sums, launches)
}
