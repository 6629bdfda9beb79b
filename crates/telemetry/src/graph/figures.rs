// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of the inside of a graph, as plain data.

use crate::kernel::Estimate;
use serde::{Deserialize, Serialize};

/// What the nodes of a row inside a graph are.
///
/// ```
/// use metrale_telemetry::snapshot::NodeKind;
///
/// assert_eq!(serde_json::to_string(&NodeKind::SideBySide)?, r#""side_by_side""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NodeKind {
    /// A kernel, by its function, as where it is launched eagerly.
    #[default]
    Kernel,
    /// Copies of memory.
    Copy,
    /// Settings of memory.
    Set,
    /// Host functions.
    Host,
    /// Graphs inside the graph.
    Child,
    /// Nodes of any other type.
    Other,
    /// Nodes that run side by side on more branches than there are marks for.
    SideBySide,
}

impl NodeKind {
    /// As it is written.
    ///
    /// ```
    /// use metrale_telemetry::snapshot::NodeKind;
    ///
    /// assert_eq!(NodeKind::SideBySide.as_str(), "side_by_side");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Copy => "copy",
            Self::Set => "set",
            Self::Host => "host",
            Self::Child => "child",
            Self::Other => "other",
            Self::SideBySide => "side_by_side",
        }
    }
}

/// A row inside a graph.
///
/// ```
/// use metrale_telemetry::snapshot::{GraphRow, NodeKind};
///
/// fn label(row: &GraphRow) -> String {
///     match (&row.name, row.kind) {
///         (Some(name), _) => name.clone(),
///         (None, NodeKind::SideBySide) => format!("{} nodes side by side", row.width),
///         (None, kind) => format!("{kind:?}"),
///     }
/// }
/// assert_eq!(label(&GraphRow::default()), "Kernel");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct GraphRow {
    /// What it is of.
    pub kind: NodeKind,
    /// A kernel's name, if it has one.
    pub name: Option<String>,
    /// The label that its series in an export has; null where it has no name.
    pub series: Option<String>,
    /// Where they run side by side: how many nodes are one sample. Otherwise 1.
    pub width: u64,
    /// Samples that a launch has, if it measures all: nodes, or groups of them.
    pub nodes: u64,
    /// How many were measured, over all launches of the twin.
    pub samples: u64,
    /// GPU nanoseconds that these took, less what their marks cost.
    pub sampled_ns: u64,
    /// What their marks cost.
    pub marks_ns: u64,
    /// Samples that a mark kept from overlapping a neighbour as in the plain
    /// graph.
    pub serialised: u64,
    /// Its marks read longer than it took: the correction stopped at 0.
    pub overcorrected: bool,
    /// Its time in all launches of the graph, and its share of the graph's;
    /// `steps` are launches of the twin that measured it.
    pub estimate: Estimate,
}

/// A graph from the inside.
///
/// ```
/// use metrale_telemetry::snapshot::GraphFigures;
///
/// /// How much of the graph its rows explain.
/// fn explained(graph: &GraphFigures) -> f64 {
///     graph.rows.iter().map(|row| row.estimate.share).sum()
/// }
/// assert_eq!(explained(&GraphFigures::default()), 0.0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct GraphFigures {
    /// Nodes that it has.
    pub nodes: u64,
    /// Plans that were launched and read.
    pub plans: u64,
    /// Launches of the twin that were read.
    pub twin_launches: u64,
    /// GPU nanoseconds of these, marks included.
    pub twin_ns: u64,
    /// What marks took of these: those that a launch waits for one after the other.
    pub marks_ns: u64,
    /// Launches of the plain graph that were timed.
    pub plain_launches: u64,
    /// GPU nanoseconds of these.
    pub plain_ns: u64,
    /// Mean time of a twin's launch over that of a plain one: what the marks
    /// do to the launches that have them, where these are alike. Null before there
    /// were both.
    pub perturbation: Option<f64>,
    /// Mean GPU nanoseconds of one mark; null where it could not be read.
    pub mark_ns: Option<f64>,
    /// The graph's GPU time in whole nanoseconds: of its rows and the rest.
    pub total_ns: f64,
    /// The rows that were measured, the longest first. Totals are whole
    /// nanoseconds.
    pub rows: Vec<GraphRow>,
    /// The graph's total less all rows: what was not measured yet and what no
    /// node took, less what rows took side by side. It may be negative.
    pub remainder_ns: f64,
}
