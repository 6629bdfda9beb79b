// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inside a CUDA graph: which marks a twin gets, and what their times say.
//!
//! A *twin* is a second executable of an application's graph, with the same
//! nodes and edges and some *marks* between them: nodes that record an event. A
//! [`GraphShape`] is the graph, a [`Planner`] chooses marks within a budget, one
//! [`Plan`] after the other, a [`Reading`] is what the marks of one launch
//! say, and [`GraphEstimates`] adds readings up. It is arithmetic: who makes
//! twins and reads their events calls it.
//!
//! 1. A mark stands between a node and its successors, and every edge of the
//!    application stays: what is ordered, and what is not, is as it was.
//! 2. A reading lands whole or not at all.
//! 3. The segments of a launch cover it from its first mark to its last: where
//!    branches run side by side some of it more than once, and nowhere less.

mod estimates;
mod figures;
mod plan;
mod planner;
mod reading;
mod shape;

pub use estimates::{ENOUGH_PLANS, GraphEstimates, GraphTotal};
pub use figures::{GraphFigures, GraphRow, NodeKind};
pub use plan::{Mark, MarkPlace, Plan, Point};
pub use planner::{LEAST_MARKS, Planner, TooFewMarksError, WINDOW_NODES};
pub use reading::{Inside, Reading, ReadingError, Segment};
pub use shape::{GraphEdge, GraphShape, NodeRow, ShapeError};
