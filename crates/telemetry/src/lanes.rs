// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lanes that an application names, besides [`LANES`]: once, before anything is
//! measured, so that an index is the same lane for as long as the process lives.

use crate::kernel::{LANES, MAX_LANES};
use crate::telemetry::Telemetry;

/// Lanes that cannot be named so; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaneNamesError {
    /// A name is empty.
    #[error("lane name {index} of those given is empty; a lane needs a name")]
    Empty {
        /// Which one, from 0.
        index: usize,
    },
    /// A name is given twice, or is one of [`LANES`].
    #[error(
        "there are two lanes {name:?}; admit, prefill and decode are there already, and each other name is given once"
    )]
    Doubled {
        /// The name.
        name: String,
    },
    /// There are too many.
    #[error("{asked} lanes were named; {most} fit beside admit, prefill and decode")]
    TooMany {
        /// How many were named.
        asked: usize,
        /// How many fit.
        most: usize,
    },
    /// Lanes were named before.
    #[error("lanes were named already; name all of them in one call")]
    Again,
    /// A recorder was made before.
    #[error("a recorder was made already; name lanes before the first one")]
    TooLate,
}

/// Names that can be taken on.
pub(crate) struct LaneNames<'a>(&'a [&'a str]);

impl<'a> LaneNames<'a> {
    pub(crate) fn new(names: &'a [&'a str]) -> Result<Self, LaneNamesError> {
        let most = MAX_LANES - LANES.len();
        if names.len() > most {
            let asked = names.len();
            return Err(LaneNamesError::TooMany { asked, most });
        }
        for (index, name) in names.iter().enumerate() {
            if name.is_empty() {
                return Err(LaneNamesError::Empty { index });
            }
            if LANES.contains(name) || names[..index].contains(name) {
                let name = (*name).to_owned();
                return Err(LaneNamesError::Doubled { name });
            }
        }
        Ok(Self(names))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().copied()
    }
}

impl Telemetry {
    /// Names up to 13 lanes more than [`LANES`], once, before the first recorder
    /// is made. Their indices follow those of [`LANES`], in the order given:
    /// the first is 3. They behave as the three do; what they are counted in is
    /// taken now (about 66 KiB for each).
    ///
    /// # Errors
    /// [`LaneNamesError`]; nothing is changed then.
    pub fn name_lanes(&self, names: &[&str]) -> Result<(), LaneNamesError> {
        let names = LaneNames::new(names)?;
        self.recorders.before_the_first(|| {
            // First, as it decides which of two calls is the one.
            if !self.instruments().name_lanes(&names) {
                return Err(LaneNamesError::Again);
            }
            self.host().name_lanes(&names);
            Ok(())
        })
    }

    /// How many lanes there are: the indices under it are theirs.
    #[must_use]
    #[inline]
    pub fn lanes(&self) -> usize {
        self.instruments().lanes()
    }

    /// The name of a lane.
    #[must_use]
    pub fn lane_name(&self, lane: usize) -> Option<&str> {
        self.instruments().lane_name(lane)
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests {
    use super::{LaneNamesError, Telemetry};
    use crate::kernel::{LANES, SpanKey};
    use crate::runtime::{KernelName, RecorderSource};
    use crate::snapshot::RecorderSnapshot;
    use std::sync::{Arc, Weak};

    static NAMES: [&str; 14] =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"];

    fn names(telemetry: &Telemetry) -> Vec<String> {
        let lanes = telemetry.snapshot().lanes;
        lanes.into_iter().map(|lane| lane.lane).collect()
    }

    #[test]
    fn named_lanes_follow_the_three() {
        let telemetry = Box::new(Telemetry::new());
        assert_eq!(telemetry.lanes(), 3);
        telemetry.name_lanes(&NAMES[..13]).unwrap();
        assert_eq!((telemetry.lanes(), telemetry.lane_name(16)), (16, None));
        assert_eq!(telemetry.lane_name(15), Some("m"));
        assert_eq!(names(&telemetry), [&LANES[..], &NAMES[..13]].concat());
    }

    #[test]
    fn what_lands_in_one_is_counted_there_and_an_index_without_name_is_ignored() {
        let telemetry = Box::new(Telemetry::new());
        telemetry.name_lanes(&["draft", "sample"]).unwrap();
        for lane in [4, 5, 15, 16, usize::MAX] {
            telemetry.instruments().record(SpanKey::Lane(lane), 500);
            telemetry.host().lane_took(lane, 700);
        }
        for (at, lane) in telemetry.snapshot().lanes.iter().enumerate() {
            let counted = u64::from(at == 4);
            assert_eq!((lane.gpu.count(), lane.wall.count()), (counted, counted));
        }
    }

    #[test]
    fn names_that_cannot_be_are_refused_and_change_nothing() {
        let telemetry = Box::new(Telemetry::new());
        let doubled = |name: &str| {
            let name = name.to_owned();
            LaneNamesError::Doubled { name }
        };
        let cases: [(&[&str], _); 4] = [
            (&["a", ""], LaneNamesError::Empty { index: 1 }),
            (&["a", "b", "a"], doubled("a")),
            (&["a", "decode"], doubled("decode")),
            (&NAMES, LaneNamesError::TooMany { asked: 14, most: 13 }),
        ];
        for (names, error) in cases {
            assert_eq!(telemetry.name_lanes(names), Err(error));
        }
        assert_eq!(telemetry.lanes(), 3);
        assert_eq!(telemetry.name_lanes(&["a"]), Ok(()));
        assert_eq!(telemetry.name_lanes(&["b"]), Err(LaneNamesError::Again));
        assert_eq!((telemetry.lanes(), telemetry.lane_name(3)), (4, Some("a")));
    }

    struct Recorder;

    impl RecorderSource for Recorder {
        fn recorder(&self) -> RecorderSnapshot {
            RecorderSnapshot::default()
        }
        fn name(&self, _: u64) -> Option<KernelName> {
            None
        }
    }

    #[test]
    fn after_the_first_recorder_it_is_too_late() {
        let telemetry = Box::new(Telemetry::new());
        let recorder: Arc<dyn RecorderSource> = Arc::new(Recorder);
        let weak: Weak<dyn RecorderSource> = Arc::downgrade(&recorder);
        telemetry.attach(weak).unwrap();
        assert_eq!(telemetry.name_lanes(&["a"]), Err(LaneNamesError::TooLate));
        drop(recorder);
        assert_eq!(telemetry.name_lanes(&["a"]), Err(LaneNamesError::TooLate));
        assert_eq!(telemetry.lanes(), 3);
    }

    #[test]
    fn snapshots_merge_by_name() {
        let [one, other] = [["draft", "sample"], ["sample", "copy"]].map(|names| {
            let telemetry = Box::new(Telemetry::new());
            telemetry.name_lanes(&names).unwrap();
            telemetry.instruments().record(SpanKey::Lane(3), 10);
            telemetry.instruments().record(SpanKey::Lane(4), 300);
            telemetry
        });
        let mut merged = one.snapshot();
        merged.merge(&other.snapshot()).unwrap();
        let own = merged.lanes[3..].iter();
        let own: Vec<_> = own.map(|lane| (&*lane.lane, lane.gpu.sum_ns())).collect();
        // By name: whichever is merged into which.
        assert_eq!(own, [("copy", 300), ("draft", 10), ("sample", 310)]);
    }
}
