// SPDX-License-Identifier: MIT OR Apache-2.0
//! What rows of the kernel table are of, and what they are called.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a row is of.
///
/// ```
/// use metrale_telemetry::snapshot::RowKind;
///
/// assert_eq!(RowKind::Graph.as_str(), "graph");
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RowKind {
    /// A kernel, by its function.
    #[default]
    Kernel,
    /// A graph of the application: one row for all that is in it.
    Graph,
    /// Work that the application named, with the launches and regions within it:
    /// their time is part of its own.
    Region,
    /// A copy, or a set of memory.
    Copy,
}

impl RowKind {
    /// Its spelling in a snapshot.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Graph => "graph",
            Self::Region => "region",
            Self::Copy => "copy",
        }
    }
}

/// The name of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelName {
    /// The text, whole.
    pub text: Arc<str>,
    /// What it names.
    pub kind: RowKind,
}

/// That of a kernel.
impl<T: AsRef<str>> From<T> for KernelName {
    fn from(text: T) -> Self {
        Self { text: text.as_ref().into(), kind: RowKind::Kernel }
    }
}
