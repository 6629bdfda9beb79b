// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is measured, in the order of the page.

mod accuracy;
mod captures;
mod device;
mod floor;
mod harvest;
mod host;
mod questions;
mod reset;
mod scripts;
mod steps;
mod streams;

use super::Failure;
use super::options::Part;
use super::run::{Measure, Tell};
use metrale_gpu_sys::cuda::Driver;

/// A section of the page.
pub(crate) struct Section {
    /// Its name on the command line and in the JSON.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// How to read it.
    pub(crate) about: &'static str,
    /// The time that it has; most need less.
    pub(crate) seconds: u64,
    body: Body,
}

/// What a section does.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    /// Measures on a device that is open.
    OnDevice(Measure),
    /// Has the driver alone, and `cuInit` is not called.
    OnDriver(fn(&Driver, &Tell, &Part) -> Result<(), Failure>),
}

/// All that the page shows.
pub(crate) const ALL: &[Section] = &[
    host::SECTION,
    floor::SECTION,
    accuracy::SECTION,
    steps::EAGER,
    steps::GRAPH,
    device::SECTION,
    captures::SECTION,
    harvest::SECTION,
    streams::SECTION,
    questions::SECTION,
    scripts::SECTION,
];

/// What a section starts in a process of its own.
const PARTS: &[(&str, Body)] = &[
    (reset::ID, Body::OnDevice(reset::measure)),
    (scripts::ID, Body::OnDriver(scripts::some)),
];

/// What the section or part of that name does.
pub(crate) fn body(id: &str) -> Option<Body> {
    let sections = ALL.iter().map(|section| (section.id, section.body));
    let mut all = sections.chain(PARTS.iter().copied());
    all.find(|(known, _)| *known == id).map(|(_, body)| body)
}

#[cfg(test)]
mod tests {
    use super::{ALL, PARTS, body};
    use std::collections::BTreeSet;

    #[test]
    fn every_id_is_its_own_and_the_times_leave_room() {
        let sections = ALL.iter().map(|section| section.id);
        let ids: Vec<&str> = sections.chain(PARTS.iter().map(|(id, _)| *id)).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        assert!(ids.iter().all(|id| body(id).is_some()));
        assert!(body("no such").is_none());
        let seconds: u64 = ALL.iter().map(|section| section.seconds).sum();
        assert!(seconds <= 450, "{seconds} s leave no room below 8 minutes");
    }
}
