// SPDX-License-Identifier: MIT OR Apache-2.0
//! GPU time of lanes by how many tokens their steps had.
//!
//! A lane's time is booked by the tokens that it worked on: prefill by those of
//! prompts, the others by those of decode. Where a step had both, and the lane
//! that would have taken the other kind had no span, the lane did both: it is
//! *mixed*, and booked by their sum, apart.

use super::{LaneRecord, StepRecord, StepShape};
use crate::kernel::{LANE_DECODE, LANE_PREFILL, MAX_LANES};
use serde::{Deserialize, Serialize};

/// The most tokens of each bucket; the last has all above it too.
pub const SHAPE_BUCKETS: [u32; 18] =
    [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536];

/// A lane's steps of one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ShapeTimes {
    /// The lane did the work of prefill and of decode in these.
    pub mixed: bool,
    /// The most tokens of the bucket, of [`SHAPE_BUCKETS`].
    pub most_tokens: u32,
    /// How many steps.
    pub steps: u64,
    /// GPU nanoseconds of the lane in them.
    pub ns: u64,
    /// The tokens that it worked on.
    pub tokens: u64,
}

impl ShapeTimes {
    /// Its bucket.
    pub(crate) fn key(&self) -> (bool, u32) {
        (self.mixed, self.most_tokens)
    }
}

#[derive(Clone, Copy)]
struct Sums {
    steps: u64,
    ns: u64,
    tokens: u64,
}

const NONE: Sums = Sums { steps: 0, ns: 0, tokens: 0 };

type OfLane = [[Sums; SHAPE_BUCKETS.len()]; 2];

/// See the module: for each lane the steps that were not mixed, and those that
/// were, by bucket.
#[derive(Clone)]
pub(in crate::kernel) struct ShapeSums([OfLane; MAX_LANES]);

impl ShapeSums {
    pub(in crate::kernel) const fn new() -> Self {
        Self([[[NONE; SHAPE_BUCKETS.len()]; 2]; MAX_LANES])
    }

    /// Adds a step. One without a shape, or of which a lane's span is missing,
    /// says nothing.
    pub(in crate::kernel) fn add(&mut self, step: &StepRecord) {
        let Some(shape) = step.shape.filter(|_| !step.incomplete) else {
            return;
        };
        for (lane, of_lane) in self.0.iter_mut().enumerate() {
            let part = &step.lanes[lane];
            if part.spans > 0 {
                let (mixed, tokens) = worked_on(shape, &step.lanes, lane);
                let times = &mut of_lane[usize::from(mixed)][bucket(tokens)];
                times.steps += 1;
                times.ns = times.ns.saturating_add(part.gpu_ns);
                times.tokens = times.tokens.saturating_add(tokens);
            }
        }
    }

    /// What a lane has: the buckets in which there are steps.
    pub(in crate::kernel) fn of(&self, lane: usize) -> impl Iterator<Item = ShapeTimes> {
        let kinds = self.0.get(lane).into_iter().flatten();
        let rows = kinds.zip([false, true]).flat_map(|(buckets, mixed)| {
            let buckets = SHAPE_BUCKETS.iter().zip(buckets);
            buckets.map(move |(most_tokens, sums)| ShapeTimes {
                mixed,
                most_tokens: *most_tokens,
                steps: sums.steps,
                ns: sums.ns,
                tokens: sums.tokens,
            })
        });
        rows.filter(|times| times.steps > 0)
    }
}

/// The tokens that a lane of a step worked on, and whether it was mixed.
fn worked_on(shape: StepShape, lanes: &[LaneRecord; MAX_LANES], lane: usize) -> (bool, u64) {
    let ran = |lanes: &[LaneRecord]| lanes.iter().any(|lane| lane.spans > 0);
    let (prompt, decode) = (u64::from(shape.prompt_tokens), u64::from(shape.decode_tokens));
    let (own, is_alone) = if lane == LANE_PREFILL {
        (prompt, !ran(&lanes[LANE_DECODE..]))
    } else {
        (decode, lanes[LANE_PREFILL].spans == 0)
    };
    if prompt > 0 && decode > 0 && is_alone { (true, prompt + decode) } else { (false, own) }
}

/// The bucket of so many tokens.
fn bucket(tokens: u64) -> usize {
    let found = SHAPE_BUCKETS.partition_point(|most| u64::from(*most) < tokens);
    found.min(SHAPE_BUCKETS.len() - 1)
}

#[cfg(all(test, not(metrale_loom)))]
mod tests {
    use super::{ShapeSums, ShapeTimes};
    use crate::kernel::records::{LaneRecord, StepRecord, StepShape};
    use crate::kernel::{LANE_ADMIT, LANE_DECODE, LANE_PREFILL, MAX_LANES};

    fn step(prompt: u32, decode: u32, lanes: &[usize]) -> StepRecord {
        let mut step = StepRecord {
            number: 0,
            armed: false,
            marked: false,
            incomplete: false,
            shape: Some(StepShape::new().prompt_tokens(prompt).decode_tokens(decode).requests(1)),
            wall_ns: None,
            ended_ns: None,
            lanes: [LaneRecord::NONE; MAX_LANES],
        };
        for lane in lanes {
            step.lanes[*lane].add(100 + *lane as u64, None);
        }
        step
    }

    /// Mixed or not, bucket and tokens of one lane of one step.
    fn booked(step: &StepRecord, lane: usize) -> Vec<(bool, u32, u64)> {
        let mut sums = ShapeSums::new();
        sums.add(step);
        let rows = sums.of(lane);
        rows.map(|times| (times.mixed, times.most_tokens, times.tokens)).collect()
    }

    #[test]
    fn a_lane_is_booked_by_the_tokens_that_it_worked_on() {
        const OWN: usize = 5;
        let both = step(100, 7, &[LANE_ADMIT, LANE_PREFILL, LANE_DECODE]);
        assert_eq!(booked(&both, LANE_PREFILL), [(false, 128, 100)]);
        assert_eq!(booked(&both, LANE_DECODE), [(false, 8, 7)]);
        assert_eq!(booked(&both, LANE_ADMIT), [(false, 8, 7)]);
        assert_eq!(booked(&both, OWN), [], "it had no span");
        // One lane for both.
        for lane in [LANE_PREFILL, LANE_DECODE, OWN] {
            let mixed = step(100, 7, &[LANE_ADMIT, lane]);
            assert_eq!(booked(&mixed, lane), [(true, 128, 107)]);
        }
        let prefill = step(100, 0, &[LANE_PREFILL, LANE_DECODE]);
        assert_eq!(booked(&prefill, LANE_PREFILL), [(false, 128, 100)]);
        assert_eq!(booked(&prefill, LANE_DECODE), [(false, 0, 0)]);
    }

    #[test]
    fn a_bucket_ends_with_its_most_tokens_and_the_last_has_the_rest() {
        let of = |tokens| booked(&step(0, tokens, &[LANE_DECODE]), LANE_DECODE)[0].1;
        let cases =
            [(0, 0), (1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (65_536, 65_536), (u32::MAX, 65_536)];
        for (tokens, most) in cases {
            assert_eq!(of(tokens), most, "{tokens}");
        }
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut sums = ShapeSums::new();
        let whole = step(0, 4, &[LANE_DECODE]);
        for left_out in
            [StepRecord { shape: None, ..whole }, StepRecord { incomplete: true, ..whole }]
        {
            sums.add(&left_out);
        }
        assert_eq!(sums.of(LANE_DECODE).count(), 0);
        sums.add(&whole);
        sums.add(&whole);
        let times = ShapeTimes { mixed: false, most_tokens: 4, steps: 2, ns: 204, tokens: 8 };
        let found: Vec<_> = sums.of(LANE_DECODE).collect();
        assert_eq!(found, [times]);
    }
}
