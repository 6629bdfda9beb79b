// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of graphs that ran as twins, for timelines. What marks told of a launch
//! comes before its step is folded or after, so it is kept apart, and joined to
//! the launch by step, row and length where a timeline is read.

use super::timelines::TimelineSpan;

/// Parts that are kept beside the last timelines.
const LAST_PARTS: usize = 2_048;

/// A launch of a graph's twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwinLaunch {
    /// Number of its step.
    pub step: u64,
    /// Handle of the graph's row.
    pub graph: u64,
    /// GPU nanoseconds of its span.
    pub ns: u64,
}

/// A part of a launch: a node, or some, and the mark that ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphPart {
    /// From its end to that of the launch, nanoseconds.
    pub before_end_ns: u64,
    /// How long it took.
    pub ns: u64,
    /// A kernel's handle, if it is one.
    pub func: Option<u64>,
    /// How many nodes it is.
    pub nodes: u32,
}

/// A part of a graph that ran as a twin: the time from one mark to the next, which
/// holds the cost of one mark. It is within a launch of its timeline, and ends as
/// long before it as the marks said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimelinePart {
    /// Its place. `func` is a kernel's; `None`: another node, or several.
    pub span: TimelineSpan,
    /// How many nodes it is.
    pub nodes: u32,
}

/// See the module. Memory is taken once; to add allocates nothing.
pub(super) struct Insides {
    kept: Vec<(TwinLaunch, GraphPart)>,
    /// The place of the next part, once they overwrite one another.
    next: usize,
    is_ring: bool,
}

impl Insides {
    /// Without memory.
    pub(super) const NONE: Self = Self { kept: Vec::new(), next: 0, is_ring: false };

    /// The oldest parts are overwritten.
    pub(super) fn of_last() -> Self {
        Self { kept: Vec::with_capacity(LAST_PARTS), next: 0, is_ring: true }
    }

    /// Parts beyond `most` are left out.
    pub(super) fn of_recording(most: usize) -> Self {
        Self { kept: Vec::with_capacity(most), next: 0, is_ring: false }
    }

    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }

    pub(super) fn add(&mut self, launch: TwinLaunch, part: GraphPart) {
        if self.kept.len() < self.kept.capacity() {
            self.kept.push((launch, part));
        } else if self.is_ring
            && let Some(place) = self.kept.get_mut(self.next)
        {
            *place = (launch, part);
            self.next = (self.next + 1) % self.kept.len();
        }
    }

    /// The parts of a step's launches, in the order of their begins.
    pub(super) fn of(&self, step: u64, launches: &[TimelineSpan]) -> Vec<TimelinePart> {
        let mut parts = Vec::new();
        // Parts of one launch come together.
        let mut last: Option<(TwinLaunch, Option<&TimelineSpan>)> = None;
        for (launch, part) in self.kept.iter().filter(|(launch, _)| launch.step == step) {
            let found = match last {
                Some((before, found)) if before == *launch => found,
                _ => {
                    let mut own = launches.iter();
                    own.find(|span| span.func == Some(launch.graph) && span.ns == launch.ns)
                }
            };
            last = Some((*launch, found));
            let before_ns = part.before_end_ns.saturating_add(part.ns);
            if let Some(span) = found.filter(|span| before_ns <= span.ns) {
                let from_ns = (span.ns - before_ns).cast_signed();
                let start_ns = span.start_ns.saturating_add(from_ns);
                let span = TimelineSpan { start_ns, ns: part.ns, func: part.func, ..*span };
                parts.push(TimelinePart { span, nodes: part.nodes });
            }
        }
        parts.sort_by_key(|part| part.span.start_ns);
        parts
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests {
    use super::*;

    fn launch(start_ns: i64, ns: u64, func: u64) -> TimelineSpan {
        TimelineSpan { start_ns, ns, stream: 7, lane: Some(2), func: Some(func) }
    }

    fn part(before_end_ns: u64, ns: u64) -> GraphPart {
        GraphPart { before_end_ns, ns, func: Some(5), nodes: 1 }
    }

    #[test]
    fn parts_lie_in_the_launch_of_their_step_row_and_length() {
        let mut insides = Insides::of_recording(8);
        let twin = TwinLaunch { step: 3, graph: 9, ns: 100 };
        insides.add(twin, part(0, 40));
        insides.add(twin, GraphPart { func: None, nodes: 12, ..part(40, 50) });
        // Longer than the launch; of another step; of a launch that is not there.
        insides.add(twin, part(90, 11));
        insides.add(TwinLaunch { step: 4, ..twin }, part(0, 1));
        insides.add(TwinLaunch { ns: 99, ..twin }, part(0, 1));
        let launches = [launch(0, 100, 8), launch(200, 101, 9), launch(400, 100, 9)];
        let found = insides.of(3, &launches);
        let told: Vec<_> =
            found.iter().map(|part| (part.span.start_ns, part.span.ns, part.nodes)).collect();
        assert_eq!(told, [(410, 50, 12), (460, 40, 1)]);
        assert_eq!([found[0].span.func, found[1].span.func], [None, Some(5)]);
        assert!(found.iter().all(|part| (part.span.stream, part.span.lane) == (7, Some(2))));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut last, mut recorded) = (Insides::of_last(), Insides::of_recording(2));
        let spans = [launch(0, 10, 9)];
        for step in 0..LAST_PARTS as u64 + 1 {
            let launch = TwinLaunch { step, graph: 9, ns: 10 };
            last.add(launch, part(0, 10));
            recorded.add(launch, part(0, 10));
        }
        let found = |insides: &Insides, step| insides.of(step, &spans).len();
        assert_eq!([found(&last, 0), found(&last, 1), found(&last, LAST_PARTS as u64)], [0, 1, 1]);
        assert_eq!([found(&recorded, 0), found(&recorded, 1), found(&recorded, 2)], [1, 1, 0]);
        assert_eq!(last.kept.capacity(), LAST_PARTS);
    }
}
