// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which nodes a plan measures.
//!
//! The segments of the graph are tiled with windows. A *round* of plans takes
//! each window once, those with rows that no plan has measured first, and else
//! by a hash; the next round tiles anew, so that no node is always at a border.
//! What a window's marks are behind on either side is a cut: nothing runs past
//! it.

use super::estimates::GraphEstimates;
use super::plan::{Builder, Measure, Plan};
use super::shape::{GraphShape, NodeRow, Segment};
use crate::sampling::mix;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Nodes of a window, where the graph and the budget let it have so many.
pub const WINDOW_NODES: usize = 8;

/// The smallest budget of marks: two around a node, one more to read what a mark
/// costs, an entry and a last one.
pub const LEAST_MARKS: usize = 5;

/// A budget that no window fits into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{marks} marks are too few for a graph of {nodes} nodes: it needs {least}")]
pub struct TooFewMarksError {
    /// The budget.
    pub marks: usize,
    /// Nodes of the graph.
    pub nodes: u32,
    /// The least budget for it.
    pub least: usize,
}

/// The rows of a graph, and which node is of which.
#[derive(Clone)]
pub(super) struct Rows {
    /// Each row, and how many samples of it a launch has at most.
    pub(super) rows: Vec<(NodeRow, u64)>,
    of_node: Vec<u32>,
}

impl Rows {
    fn new(shape: &GraphShape, fits: impl Fn(&Segment) -> bool) -> Self {
        let mut index = BTreeMap::new();
        let mut rows: Vec<(NodeRow, u64)> = Vec::new();
        let mut of_node = vec![0; shape.nodes() as usize];
        let mut count = |row: NodeRow| {
            let at = *index.entry(row).or_insert_with(|| {
                rows.push((row, 0));
                rows.len() - 1
            });
            rows[at].1 += 1;
            at as u32
        };
        for segment in shape.segments() {
            let nodes = shape.nodes_of(segment);
            if fits(segment) {
                for &node in nodes {
                    of_node[node as usize] = count(shape.row(node));
                }
            } else {
                let row = count(NodeRow::SideBySide(nodes.len() as u32));
                nodes.iter().for_each(|&node| of_node[node as usize] = row);
            }
        }
        Self { rows, of_node }
    }

    /// The index of a node's row.
    pub(super) fn of(&self, node: u32) -> u32 {
        self.of_node[node as usize]
    }
}

/// Makes the plans of a graph's twin, one after the other.
pub struct Planner {
    shape: GraphShape,
    rows: Rows,
    marks: usize,
    seed: u64,
    plans: u64,
    round: u64,
    /// Windows of this round that no plan has taken, as ranges of segments, by
    /// their hash.
    left: Vec<Range<usize>>,
    /// Rows that no plan has measured.
    unseen: Vec<bool>,
}

impl Planner {
    /// Plans for `shape` with up to `marks` marks each.
    ///
    /// # Errors
    /// [`TooFewMarksError`].
    pub fn new(shape: GraphShape, marks: usize, seed: u64) -> Result<Self, TooFewMarksError> {
        let nodes = shape.nodes();
        let least = LEAST_MARKS.min(nodes as usize + 1);
        if marks < least {
            return Err(TooFewMarksError { marks, nodes, least });
        }
        let rows = Rows::new(&shape, |segment| fits(&shape, marks, segment));
        Ok(Self {
            unseen: vec![true; rows.rows.len()],
            shape,
            rows,
            marks,
            seed,
            plans: 0,
            round: 0,
            left: Vec::new(),
        })
    }

    /// The graph.
    #[must_use]
    pub fn shape(&self) -> &GraphShape {
        &self.shape
    }

    /// Where readings of its plans are added up.
    #[must_use]
    pub fn estimates(&self) -> GraphEstimates {
        GraphEstimates::new(u64::from(self.shape.nodes()), &self.rows)
    }

    /// The next plan.
    pub fn plan(&mut self) -> Plan {
        let number = self.plans;
        self.plans += 1;
        let nodes = self.shape.nodes() as usize;
        let (measures, marks) = if marks_all(&self.shape, self.marks) {
            (vec![Measure::Nodes; self.shape.segments().len()], nodes + 1)
        } else {
            self.choose()
        };
        let double = (marks < self.marks).then(|| self.pick(number, &measures));
        Builder::build(&self.shape, &self.rows, number, &measures, double.flatten())
    }

    /// A segment that is measured, by a hash.
    fn pick(&self, number: u64, measures: &[Measure]) -> Option<usize> {
        let measured = |&at: &usize| measures[at] != Measure::Not;
        let all = (0..measures.len()).filter(measured);
        all.min_by_key(|&at| mix(mix(self.seed ^ mix(number)) ^ at as u64))
    }

    /// Takes windows for a plan, as many as fit beside a double mark; and how
    /// many marks they need with an entry and a last one.
    fn choose(&mut self) -> (Vec<Measure>, usize) {
        if self.left.is_empty() {
            self.tile();
        }
        let mut measures = vec![Measure::Not; self.shape.segments().len()];
        let mut marks = 2;
        while let Some((best, more)) = self.best(&measures, self.marks - 1 - marks) {
            marks += more;
            for at in self.left.remove(best) {
                let segment = &self.shape.segments()[at];
                measures[at] = self.measure(segment);
                for node in self.shape.nodes_of(segment) {
                    self.unseen[self.rows.of(*node) as usize] = false;
                }
            }
        }
        (measures, marks)
    }

    /// Of the windows that need up to `room` more marks, the first of those with
    /// the most unseen rows, and its marks.
    fn best(&self, measures: &[Measure], room: usize) -> Option<(usize, usize)> {
        // The last of equals is the largest: from the back that is the first.
        let windows = self.left.iter().enumerate().rev();
        let marks = windows.map(|(at, window)| (at, self.marks_of(measures, window)));
        let fitting = marks.filter(|(_, marks)| *marks <= room);
        fitting.max_by_key(|(at, _)| self.unseen_in(&self.left[*at]))
    }

    /// Marks that a window adds to a plan.
    fn marks_of(&self, measures: &[Measure], window: &Range<usize>) -> usize {
        let of_segment = |segment| match self.measure(segment) {
            Measure::Nodes => segment.places.len(),
            _ => 1,
        };
        let segments = &self.shape.segments()[window.clone()];
        let inside: usize = segments.iter().map(of_segment).sum();
        let before = window.start.checked_sub(1).map(|at| measures[at]);
        // Behind its last node is a mark already if that is the border of the
        // next window, or the last mark.
        let has_end = measures.get(window.end) != Some(&Measure::Not);
        inside + usize::from(before == Some(Measure::Not)) - usize::from(has_end)
    }

    /// Rows of a window that no plan has measured.
    fn unseen_in(&self, window: &Range<usize>) -> usize {
        let segments = &self.shape.segments()[window.clone()];
        let nodes = segments.iter().flat_map(|own| self.shape.nodes_of(own));
        let rows = nodes.map(|node| self.rows.of(*node));
        let unseen = rows.filter(|&row| self.unseen[row as usize]);
        unseen.collect::<BTreeSet<u32>>().len()
    }

    fn measure(&self, segment: &Segment) -> Measure {
        if fits(&self.shape, self.marks, segment) { Measure::Nodes } else { Measure::Block }
    }

    /// Begins a round.
    fn tile(&mut self) {
        let round = mix(self.seed ^ mix(self.round));
        self.round += 1;
        let width = WINDOW_NODES.min(room(self.marks) - 1);
        // The first window's size shifts all borders.
        let mut most = width.div_ceil(2) + round as usize % (width / 2 + 1);
        let mut first = 0;
        while first < self.shape.segments().len() {
            let end = self.window_end(first, most);
            self.left.push(first..end);
            (first, most) = (end, width);
        }
        self.left.sort_by_key(|window| mix(round ^ window.start as u64));
    }

    /// Where a window from segment `first` on ends: at up to `most` nodes, and
    /// at a border that no programmatic edge crosses, if there is one in its
    /// second half.
    fn window_end(&self, first: usize, most: usize) -> usize {
        let segments = &self.shape.segments()[first..];
        let (mut nodes, mut end, mut good) = (0, 0, None);
        for segment in segments {
            nodes += segment.places.len();
            let is_alone = !fits(&self.shape, self.marks, segment);
            if end > 0 && (nodes > most || is_alone) {
                break;
            }
            end += 1;
            if !segment.ends_programmatic && 2 * nodes >= most {
                good = Some(end);
            }
            if is_alone {
                break;
            }
        }
        first + good.unwrap_or(end)
    }
}

/// Whether all nodes can have marks.
fn marks_all(shape: &GraphShape, marks: usize) -> bool {
    marks > shape.nodes() as usize
}

/// Marks for windows: all but the entry, the last and the double one.
fn room(marks: usize) -> usize {
    marks.saturating_sub(3).max(2)
}

/// Whether a segment's nodes can all have marks in one plan, with one before
/// them.
fn fits(shape: &GraphShape, marks: usize, segment: &Segment) -> bool {
    marks_all(shape, marks) || segment.places.len() < room(marks)
}

#[cfg(test)]
mod tests {
    use super::{Builder, Planner};
    use crate::graph::{GraphEdge, GraphShape, NodeRow};

    /// Chains, and forks of three or of thirty with their joins, at random.
    fn planner(chance: &mut fastrand::Rng) -> Planner {
        let (mut edges, mut end) = (Vec::new(), 0);
        let mut edge = |from, to| {
            edges.push(GraphEdge { from, to, programmatic: false });
        };
        for _ in 0..chance.u32(1..40) {
            let wide = [1, 1, 3, 30][chance.usize(0..4)];
            for node in end + 1..=end + wide {
                edge(end, node);
                edge(node, end + wide + 1);
            }
            end += wide + 1;
        }
        let rows = (0..=end).map(|_| NodeRow::Kernel(chance.u64(1..9)));
        let shape = GraphShape::new(rows.collect(), &edges).unwrap();
        Planner::new(shape, chance.usize(5..40), chance.u64(..)).unwrap()
    }

    /// Too few are room for a window that stays empty, too many no plan.
    #[test]
    fn marks_are_counted_as_they_are_placed() {
        let mut chance = fastrand::Rng::with_seed(1);
        for _ in 0..500 {
            let mut planner = planner(&mut chance);
            for number in 0..5 {
                let (measures, marks) = planner.choose();
                let plan = Builder::build(&planner.shape, &planner.rows, number, &measures, None);
                assert_eq!(plan.marks().len(), marks);
            }
        }
    }
}
