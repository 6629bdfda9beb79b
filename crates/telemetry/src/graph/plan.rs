// SPDX-License-Identifier: MIT OR Apache-2.0
//! The marks of a twin, and what lies between them.

use super::planner::Rows;
use super::shape::GraphShape;

/// What a mark or an edge of a mark is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A node of the application.
    Node(u32),
    /// A mark, by its index in the plan.
    Mark(u32),
}

/// Where a mark stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkPlace {
    /// Before the roots.
    Entry,
    /// Between a node and its successors.
    After(u32),
    /// Straight behind the mark before it: between the two lies one mark.
    Double,
    /// Behind the sinks.
    Last,
}

/// A node to add, which records an event, and its edges. All are full ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where it stands.
    pub place: MarkPlace,
    /// What it depends on; a mark among them has a smaller index.
    pub after: Vec<Point>,
    /// The application's nodes that are to depend on it.
    pub before: Vec<u32>,
}

/// What the time between a mark and the latest of those before it was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Between {
    /// A node of a row.
    Node { node: u32, is_serialised: bool },
    /// So many nodes side by side.
    Block { nodes: u32 },
    /// So many nodes that this plan does not measure.
    Rest { nodes: u32 },
    /// The mark alone.
    Mark,
}

/// What ends at a mark.
pub(super) struct End {
    /// The marks before it: a range of [`Plan::starts`].
    starts: std::ops::Range<usize>,
    pub(super) between: Between,
    /// Index of its row, if it has one.
    pub(super) row: Option<u32>,
}

const NO_MARK: u32 = u32::MAX;

/// The marks of a twin.
pub struct Plan {
    number: u64,
    marks: Vec<Mark>,
    /// What ends at each mark but the first.
    ends: Vec<End>,
    starts: Vec<u32>,
    /// The second mark of the double one.
    double: Option<u32>,
    is_complete: bool,
}

impl Plan {
    /// The marks to add, in an order in which they can be.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Counts the plans of a planner, from 0.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether all nodes have marks: the next plan would be the same.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(super) fn double(&self) -> Option<usize> {
        self.double.map(|mark| mark as usize)
    }

    /// Each mark but the first, as its index, the marks before it and what ends
    /// at it.
    pub(super) fn ends(&self) -> impl Iterator<Item = (usize, &[u32], &End)> {
        let one = |(at, end): (usize, &'_ End)| (at + 1, at, end.starts.clone());
        self.ends
            .iter()
            .enumerate()
            .map(one)
            .map(|(mark, at, starts)| (mark, &self.starts[starts], &self.ends[at]))
    }

    /// The marks before mark `mark`; none before the first.
    pub(super) fn starts(&self, mark: usize) -> &[u32] {
        match mark.checked_sub(1).and_then(|end| self.ends.get(end)) {
            Some(end) => &self.starts[end.starts.clone()],
            None => &[],
        }
    }
}

/// How a plan measures a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Not,
    /// Each node has its mark.
    Nodes,
    /// As one row.
    Block,
}

/// Puts a plan together, segment after segment.
pub(super) struct Builder<'a> {
    shape: &'a GraphShape,
    rows: &'a Rows,
    plan: Plan,
    /// The last mark behind each node.
    behind: Vec<u32>,
    /// The last mark before the roots.
    head: u32,
    /// The last mark that all before it is over at.
    border: u32,
    /// Nodes behind the border that are not measured.
    skipped: u32,
}

impl<'a> Builder<'a> {
    /// The plan that measures segments so, with a double mark behind the first
    /// border of segment `double`, which is measured.
    pub(super) fn build(
        shape: &'a GraphShape,
        rows: &'a Rows,
        number: u64,
        measures: &[Measure],
        double: Option<usize>,
    ) -> Plan {
        let entry =
            Mark { place: MarkPlace::Entry, after: Vec::new(), before: shape.roots().collect() };
        let mut builder = Self {
            shape,
            rows,
            plan: Plan {
                number,
                marks: vec![entry],
                ends: Vec::new(),
                starts: Vec::new(),
                double: None,
                is_complete: measures.iter().all(|measure| *measure == Measure::Nodes),
            },
            behind: vec![NO_MARK; shape.nodes() as usize],
            head: 0,
            border: 0,
            skipped: 0,
        };
        let mut cut = None;
        for (at, (segment, measure)) in shape.segments().iter().zip(measures).enumerate() {
            let nodes = shape.nodes_of(segment);
            if *measure == Measure::Not {
                builder.skipped += nodes.len() as u32;
            } else {
                builder.close_rest(cut);
                if double == Some(at) {
                    builder.double();
                }
                match measure {
                    Measure::Nodes => nodes.iter().for_each(|&node| builder.node(node)),
                    _ => builder.block(nodes, segment.cut),
                }
            }
            if let Some(cut) = segment.cut.filter(|_| *measure != Measure::Not) {
                builder.border = builder.behind[cut as usize];
            }
            cut = segment.cut;
        }
        builder.close_rest(None);
        builder.plan
    }

    /// A mark on the border behind the nodes that were skipped, if any were:
    /// behind a cut, or behind all.
    fn close_rest(&mut self, cut: Option<u32>) {
        let nodes = std::mem::take(&mut self.skipped);
        if nodes > 0 {
            self.on_border(cut, Between::Rest { nodes }, None);
        }
    }

    fn block(&mut self, nodes: &[u32], cut: Option<u32>) {
        let row = nodes.first().map(|node| self.rows.of(*node));
        let nodes = nodes.len() as u32;
        self.on_border(cut, Between::Block { nodes }, row);
    }

    fn on_border(&mut self, cut: Option<u32>, between: Between, row: Option<u32>) {
        self.plan.starts.push(self.border);
        let mark = match cut {
            Some(node) => self.after(node),
            None => Mark {
                place: MarkPlace::Last,
                after: self.shape.sinks().map(Point::Node).collect(),
                before: Vec::new(),
            },
        };
        self.border = self.push(mark, 1, between, row);
        if let Some(node) = cut {
            self.behind[node as usize] = self.border;
        }
    }

    /// Marks a node all of whose predecessors have marks, or are before one of
    /// its predecessors that has.
    fn node(&mut self, node: u32) {
        let before = self.shape.predecessors(node);
        let is_programmatic = |link: &super::shape::Link| link.is_programmatic;
        let mut is_serialised = self.shape.successors(node).iter().any(is_programmatic);
        let first = self.plan.starts.len();
        if before.is_empty() {
            self.plan.starts.push(self.head);
        }
        for link in before {
            let mark = self.behind[link.node as usize];
            if mark != NO_MARK {
                self.plan.starts.push(mark);
                is_serialised |= link.is_programmatic;
            }
        }
        let starts = self.plan.starts.len() - first;
        let mark = self.after(node);
        let between = Between::Node { node, is_serialised };
        self.behind[node as usize] = self.push(mark, starts, between, Some(self.rows.of(node)));
    }

    /// A second mark behind the one on the border.
    fn double(&mut self) {
        let first = &self.plan.marks[self.border as usize];
        let mark = Mark {
            place: MarkPlace::Double,
            after: vec![Point::Mark(self.border)],
            before: first.before.clone(),
        };
        let place = first.place;
        self.plan.starts.push(self.border);
        self.border = self.push(mark, 1, Between::Mark, None);
        self.plan.double = Some(self.border);
        match place {
            MarkPlace::After(node) => self.behind[node as usize] = self.border,
            _ => self.head = self.border,
        }
    }

    fn after(&self, node: u32) -> Mark {
        let behind = self.shape.successors(node).iter();
        Mark {
            place: MarkPlace::After(node),
            after: vec![Point::Node(node)],
            before: behind.map(|link| link.node).collect(),
        }
    }

    /// Adds a mark behind the last `starts` of the marks listed as such.
    fn push(&mut self, mark: Mark, starts: usize, between: Between, row: Option<u32>) -> u32 {
        let end = self.plan.starts.len();
        let starts = end - starts..end;
        self.plan.ends.push(End { starts, between, row });
        self.plan.marks.push(mark);
        self.plan.ends.len() as u32
    }
}
