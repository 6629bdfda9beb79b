// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a task can fail with. Every message says what was asked and what to do;
//! nobody asks which failure it was, so most are their message.

/// The result of a task or of one of its parts.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a task failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A file or a program could not be reached.
    #[error("{what}: {source}")]
    Io {
        /// What was asked, with the path.
        what: String,
        /// What the system answered.
        source: std::io::Error,
    },
    /// A command ran and failed, or could not be started.
    #[error(transparent)]
    Command(#[from] xshell::Error),
    /// `cargo metadata` failed.
    #[error("cargo metadata: {0}")]
    Metadata(#[from] cargo_metadata::Error),
    /// The public API cannot be read from rustdoc's output.
    #[error("rustdoc's JSON: {0}")]
    Rustdoc(#[from] public_api::Error),
    /// The task did not come to what it should have.
    #[error("{0}")]
    Failed(String),
}

/// A failure with its message.
pub(crate) fn failed<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::Failed(message.into()))
}

/// Gives an I/O error its context.
pub(crate) trait Context<T> {
    /// Says what was asked.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Context<T> for std::io::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io { what: what(), source })
    }
}
