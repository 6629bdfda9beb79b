// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the marks of one launch say.

use super::plan::{Between, End, Plan};

/// Times that cannot be those of a plan's marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadingError {
    #[error("{found} times were read for {marks} marks: each has one")]
    /// Not one for each mark.
    Count {
        /// Times.
        found: usize,
        /// Marks of the plan.
        marks: usize,
    },
    #[error("mark {mark} was read at {at_ns} ns and one before it at {before_ns} ns")]
    /// A mark that is behind another one and was read before it.
    Disordered {
        /// Its index.
        mark: usize,
        /// Its time.
        at_ns: u64,
        /// The other one's.
        before_ns: u64,
    },
}

/// What a segment was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// A node of the application.
    Node(u32),
    /// So many nodes, side by side.
    Block(u32),
    /// So many nodes that this plan does not measure.
    Rest(u32),
    /// A mark alone.
    Mark,
}

/// The time between a mark and the latest of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// What it was spent on.
    pub inside: Inside,
    /// Its begin, in nanoseconds from the same moment as the marks' times.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
}

/// The marks' times of one launch.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    pub(super) plan: &'a Plan,
    times: &'a [u64],
    span_ns: u64,
    /// Marks, but for the first, that the launch waited for one after the other.
    marks: u64,
}

impl Plan {
    /// Takes the marks' times of one launch, in the order of the marks, as
    /// nanoseconds from one moment: that of the entry mark, say.
    ///
    /// # Errors
    /// [`ReadingError`]: the launch has no reading.
    pub fn read<'a>(&'a self, times: &'a [u64]) -> Result<Reading<'a>, ReadingError> {
        let (found, marks) = (times.len(), self.marks().len());
        if found != marks {
            return Err(ReadingError::Count { found, marks });
        }
        for (mark, starts, _) in self.ends() {
            let (at_ns, before_ns) = (times[mark], latest(times, starts));
            if at_ns < before_ns {
                return Err(ReadingError::Disordered { mark, at_ns, before_ns });
            }
        }
        let (mut mark, mut waited) = (0, 0);
        for (at, time) in times.iter().enumerate() {
            if *time >= times[mark] {
                mark = at;
            }
        }
        let span_ns = times[mark] - times[0];
        // Back from the last mark, each time to the one that was waited for.
        let time_of = |start: &&u32| times[**start as usize];
        while let Some(start) = self.starts(mark).iter().max_by_key(time_of) {
            (mark, waited) = (*start as usize, waited + 1);
        }
        Ok(Reading { plan: self, times, span_ns, marks: waited })
    }
}

impl Reading<'_> {
    /// From the first mark to the last, nanoseconds.
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        self.span_ns
    }

    /// When the last mark was done.
    pub(super) fn end_ns(&self) -> u64 {
        self.times[0] + self.span_ns
    }

    /// What a mark cost on this launch, nanoseconds; `None` where the plan has
    /// no double mark.
    #[must_use]
    pub fn mark_ns(&self) -> Option<u64> {
        let double = self.plan.double()?;
        Some(self.times[double] - latest(self.times, self.plan.starts(double)))
    }

    /// What the marks added to the span.
    #[must_use]
    pub fn marks_ns(&self) -> u64 {
        self.marks.saturating_mul(self.mark_ns().unwrap_or(0))
    }

    /// The segments, in the order of the marks that end them. Each holds one
    /// mark, so its own time is [`mark_ns`](Self::mark_ns) less. Together they
    /// are the span, and what ran side by side is in it more than once.
    pub fn segments(&self) -> impl Iterator<Item = Segment> {
        self.each().map(|(end, from_ns, to_ns)| Segment {
            inside: match end.between {
                Between::Node { node, .. } => Inside::Node(node),
                Between::Block { nodes } => Inside::Block(nodes),
                Between::Rest { nodes } => Inside::Rest(nodes),
                Between::Mark => Inside::Mark,
            },
            from_ns,
            to_ns,
        })
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (&End, u64, u64)> {
        self.plan
            .ends()
            .map(|(mark, starts, end)| (end, latest(self.times, starts), self.times[mark]))
    }
}

/// The latest time of some marks.
fn latest(times: &[u64], marks: &[u32]) -> u64 {
    let times = marks.iter().map(|&mark| times[mark as usize]);
    times.max().unwrap_or(0)
}
