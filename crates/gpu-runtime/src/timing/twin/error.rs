// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a graph has no twin.

use metrale_gpu_sys::cuda::Status;

/// Why a graph has no twin, or has none any more. Its plain executable is launched
/// all the same.
///
/// ```
/// use metrale_gpu_runtime::timing::TwinError;
/// assert!(TwinError::Off.to_string().contains("RecorderConfig::twins"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TwinError {
    /// The recorder makes no twins.
    #[error("the recorder makes no twins; set RecorderConfig::twins")]
    Off,
    /// The recorder measures nothing, was closed or stopped, or the process exits.
    #[error("the recorder makes no driver call; see its health")]
    Silent,
    /// As many twins as there may be are in use.
    #[error("all {resident} twins are in use; retire one, or raise TwinsConfig::resident")]
    NoRoom {
        /// How many there may be.
        resident: usize,
    },
    /// The graph is larger than any that gets a twin.
    #[error("the graph has {nodes} nodes and the most is {most}; raise TwinsConfig::nodes")]
    TooLarge {
        /// Its nodes.
        nodes: usize,
        /// The most.
        most: usize,
    },
    /// The twin would take more device memory than is left of the budget.
    #[error(
        "the twin is reckoned to take {needs} bytes and {left} are left; raise TwinsConfig::bytes"
    )]
    NoBytes {
        /// What it is reckoned to take.
        needs: usize,
        /// What is left.
        left: usize,
    },
    /// The driver lacks a function.
    #[error("the driver has no {symbol}; twins need CUDA 11.4")]
    Missing {
        /// Its name.
        symbol: &'static str,
    },
    /// The driver cannot tell the executable's flags, and the caller did not.
    #[error("the driver (before CUDA 12.0) does not tell an executable's flags; state them")]
    UnknownFlags,
    /// The executable has flags that a twin cannot have.
    #[error("an executable with flags {flags:#x} can have no event nodes beside it")]
    Flags {
        /// Its flags, as `cuGraphInstantiateWithFlags` takes them.
        flags: u64,
    },
    /// A node is of a kind that makes a second executable impossible, or is not
    /// known: it allocates or frees, is conditional, or newer than this version.
    #[error("the graph has a node of {kind}, with which it has one executable at most")]
    Node {
        /// The kind.
        kind: NodeType,
    },
    /// An edge has data that the driver does not tell.
    #[error("the graph has edges with data, which the driver (before CUDA 12.3) does not tell")]
    EdgeData,
    /// Too many graphs of different names or shapes had twins.
    #[error("{most} graphs of different names or shapes had twins already")]
    TooManyGraphs {
        /// How many are remembered.
        most: usize,
    },
    /// The graph needs more marks than a twin has.
    #[error(
        "{marks} marks are too few for this graph, which needs {least}; raise TwinsConfig::marks"
    )]
    FewMarks {
        /// Marks of a twin.
        marks: usize,
        /// What it needs.
        least: usize,
    },
    /// The graph has no node, or its edges have a cycle.
    #[error("the graph has no node that could be timed, or no order")]
    NoShape,
    /// A call of the driver failed.
    #[error("{call} answered {status}")]
    Driver {
        /// Its name.
        call: &'static str,
        /// What it answered.
        status: Status,
    },
    /// A launch of the twin failed. The plain executable was launched in its place.
    #[error("the twin's launch was answered {status}")]
    Launch {
        /// What the driver answered.
        status: Status,
    },
    /// A launch of the twin can never be read.
    #[error("a launch of the twin cannot be read")]
    Lost,
    /// [`Twin::retire`](super::Twin::retire) was called.
    #[error("the application retired it")]
    Retired,
}

/// The kind of a node: `CUgraphNodeType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeType(pub u32);

impl std::fmt::Display for NodeType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            10 => f.write_str("memory allocation (10)"),
            11 => f.write_str("memory free (11)"),
            13 => f.write_str("a conditional (13)"),
            other => write!(f, "kind {other}"),
        }
    }
}
