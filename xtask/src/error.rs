// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a task can fail with. Every message says what was asked and what to do.

use std::path::PathBuf;

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
    /// `cargo build` failed; it has said why on stderr.
    #[error("`cargo build` of {0} failed, see above")]
    Build(String),
    /// `cargo build` succeeded without the file that the task needs.
    #[error("`cargo build` made no {0}; is the crate type in its Cargo.toml still right?")]
    NoArtifact(String),
    /// The feature `nvtx` cannot be built, and must be.
    #[error("no libclang, which feature nvtx needs; on Debian: apt-get install libclang-dev")]
    NoLibclang,
    /// What is written in Python cannot be tested, and must be.
    #[error("no python3 with venv; on Debian: apt-get install python3-venv")]
    NoPython,
    /// The recorded traces are asked for and are not there.
    #[error(
        "no recorded traces at {0}; put the folder there, point METRALE_TRACES at it, or set \
         METRALE_TRACES=skip to go on without the tests that read them"
    )]
    NoTraces(PathBuf),
    /// The README does not hold what the outside crate is made of.
    #[error("README.md, \"{heading}\": {problem}")]
    Readme {
        /// The heading looked under.
        heading: &'static str,
        /// What is missing there.
        problem: String,
    },
    /// A library does not say which compiler it needs.
    #[error("{0} declares no rust-version in its Cargo.toml")]
    NoCompiler(&'static str),
    /// A program outside the workspace measured something else.
    #[error("the program on cudarc {version} printed\n{printed}\nand not\n{wanted}")]
    Outside {
        /// The version of cudarc.
        version: &'static str,
        /// What it printed.
        printed: String,
        /// What it takes in truth.
        wanted: &'static str,
    },
    /// Tidy found violations; they have been listed.
    #[error("{0} violation(s) of the house rules, listed above")]
    Untidy(usize),
    /// The public API is not what its files say.
    #[error("the public API has changed: `cargo xtask api --write` writes it anew: {0:?}")]
    Api(Vec<PathBuf>),
    /// The public API cannot be read from rustdoc's output.
    #[error("rustdoc's JSON: {0}")]
    Rustdoc(#[from] public_api::Error),
    /// The C header cannot be made.
    #[error("cbindgen: {0}")]
    Cbindgen(String),
    /// Some models failed; their output is above.
    #[error("{0} model(s) failed: {1}")]
    Models(usize, String),
    /// No model was selected.
    #[error("no model was run; does a name on the command line match one?")]
    NoModels,
    /// What `loom --weaken` or `differential --mistakes` found, listed above.
    #[error("{0}")]
    Weaken(String),
    /// A step of `ci` failed.
    #[error("step `{step}` failed: {source}")]
    Step {
        /// The step's name, as in its headline.
        step: &'static str,
        /// Why.
        source: Box<Error>,
    },
    /// A gate or a benchmark failed, or left what cannot be read.
    #[error("{0}")]
    Bench(String),
    /// The demo ended with a failure.
    #[error("`demo {args}` ended with {status}")]
    Demo {
        /// Its arguments.
        args: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// The demo succeeded and its report is not what it should be.
    #[error("`demo` left no JSON object at {0}")]
    Report(PathBuf),
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
