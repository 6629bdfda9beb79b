// SPDX-License-Identifier: MIT OR Apache-2.0
//! Series of lanes by how many tokens their steps had. A snapshot that came from
//! outside may name buckets that there are not: those have no series, so that
//! there is a bound.

use super::sample::{Sample, Value, sample};
use crate::kernel::{SHAPE_BUCKETS, ShapeTimes};
use crate::snapshot::{LaneSnapshot, Snapshot};

/// [`SHAPE_BUCKETS`] as labels.
const LABELS: [&str; SHAPE_BUCKETS.len()] = [
    "0", "1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024", "2048", "4096", "8192",
    "16384", "32768", "65536",
];

/// The buckets in which there are steps.
pub(super) fn series(snapshot: &Snapshot, value: fn(&ShapeTimes) -> Value<'_>) -> Vec<Sample<'_>> {
    let of_lane = |lane| {
        let LaneSnapshot { lane, shapes, .. }: &LaneSnapshot = lane;
        shapes.iter().filter_map(move |times| {
            let bucket = SHAPE_BUCKETS.iter().position(|most| *most == times.most_tokens)?;
            let labels = [
                ("lane", lane.as_str()),
                ("mixed", if times.mixed { "true" } else { "false" }),
                ("most_tokens", LABELS[bucket]),
            ];
            Some(sample(labels, value(times)))
        })
    };
    snapshot.lanes.iter().flat_map(of_lane).collect()
}

/// All tokens of a lane.
pub(super) fn tokens(lane: &LaneSnapshot) -> u64 {
    let each = lane.shapes.iter().map(|times| times.tokens);
    each.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::{LABELS, SHAPE_BUCKETS};

    #[test]
    fn the_labels_are_the_buckets() {
        let labels = LABELS.map(|label| label.parse().ok());
        assert_eq!(labels, SHAPE_BUCKETS.map(Some));
    }
}
