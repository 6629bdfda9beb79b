// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is measured, in the order of the page.

mod accuracy;
mod captures;
mod floor;
mod host;
mod scripts;
mod steps;
mod twins;

use super::Failure;
use super::page::Keeper;
use super::run::Bench;
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
    pub(crate) body: Body,
}

/// What a section does.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    /// Measures on a device that is open.
    OnDevice(fn(&Bench) -> Result<(), Failure>),
    /// Has the driver and the device's number alone; `cuInit` is not called.
    OnDriver(fn(&Driver, u32, &Keeper) -> Result<(), Failure>),
}

/// All that the page shows.
pub(crate) const ALL: &[Section] = &[
    host::SECTION,
    floor::SECTION,
    accuracy::SECTION,
    steps::EAGER,
    steps::GRAPH,
    captures::SECTION,
    twins::SECTION,
    scripts::SECTION,
];

#[cfg(test)]
mod tests {
    use super::ALL;
    use std::collections::BTreeSet;

    #[test]
    fn every_id_is_its_own_and_the_times_leave_room() {
        let ids: BTreeSet<_> = ALL.iter().map(|section| section.id).collect();
        assert_eq!(ids.len(), ALL.len());
        let seconds: u64 = ALL.iter().map(|section| section.seconds).sum();
        assert!(seconds <= 450, "{seconds} s leave no room below 8 minutes");
    }
}
