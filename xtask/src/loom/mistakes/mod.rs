// SPDX-License-Identifier: MIT OR Apache-2.0
//! The classic mistakes of such protocols, as small edits of the sources. A set
//! of models that lets one of them pass proves nothing.

mod instruments;
mod ring;
mod steps;

/// A mistake and the model that is expected to catch it.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) name: &'static str,
    pub(super) model: &'static str,
    pub(super) edits: &'static [Edit],
}

/// A file of the telemetry crate, a function in it, code that it holds once (told
/// by its tokens, so any layout will do), and what stands there instead.
type Edit = (&'static str, &'static str, &'static str, &'static str);

const fn mistake(name: &'static str, model: &'static str, edits: &'static [Edit]) -> Mistake {
    Mistake { name, model, edits }
}

/// The source that an edit names.
pub(super) fn path(file: &str) -> String {
    format!("crates/telemetry/src/{file}")
}

/// Every mistake.
pub(super) fn all() -> impl Iterator<Item = &'static Mistake> {
    [ring::ALL, steps::ALL, instruments::ALL].into_iter().flatten()
}
