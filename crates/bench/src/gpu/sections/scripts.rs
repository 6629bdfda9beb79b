// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulator's call scripts, run against this driver: where it answers
//! something else, the simulator is wrong or the driver is another one.

use super::{Body, Section};
use crate::gpu::Failure;
use crate::gpu::cuda::{Functions, library};
use crate::gpu::item::{Cell, Table};
use crate::gpu::run::Tell;
use metrale_gpu_sim::scripts::{self, Script};
use metrale_gpu_sys::cuda::Driver;

pub(super) const SECTION: Section = Section {
    id: "scripts",
    title: "The simulator's scripts",
    about: "Each script is a list of calls with the statuses that the simulated driver answers. A difference \
            is a finding about the simulator, not a fault of this machine.",
    seconds: 60,
    body: Body::OnDriver(measure),
};

/// Those that may run on a GPU, before the others the one that nobody may have
/// called `cuInit` for.
fn legal() -> Vec<Script> {
    let mut scripts = scripts::all();
    scripts.retain(|script| script.hardware);
    scripts.sort_by_key(|script| !script.own_process);
    scripts
}

fn measure(driver: &Driver, tell: &Tell) -> Result<(), Failure> {
    let library = library(driver)?;
    let source = |name: &str| {
        // SAFETY: the symbol is only taken as an address here.
        let found = unsafe { library.get::<*const std::ffi::c_void>(name.as_bytes()) };
        found.ok().map(|address| *address)
    };
    let columns =
        [("script", ""), ("line", "count"), ("call", ""), ("expected", ""), ("found", "")];
    let mut table = Table::new("differences", "Differences.", &columns);
    let (scripts, mut is_held) = (legal(), false);
    for script in &scripts {
        if !script.own_process && !is_held {
            // Made once: making it anew for each script takes a real driver long.
            Functions::load(driver)?.context(tell.options.device)?;
            is_held = true;
        }
        tell.trying(format!("script {}", script.name));
        // SAFETY: the functions are the driver's, and this process does nothing
        // else with it.
        let differences = unsafe { script.run(&source) }.err().unwrap_or_default();
        for difference in differences {
            table.row([
                script.name.as_ref().into(),
                Cell::count(difference.line as u64),
                difference.call.into(),
                difference.expected.into(),
                difference.found.into(),
            ]);
        }
        tell.table(&table);
    }
    let (ran, found) = (scripts.len(), table.rows.len());
    tell.note(format!("{ran} scripts ran; {found} steps differ."));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::legal;

    #[test]
    fn the_script_before_cu_init_comes_first_and_is_the_only_one() {
        let alone = legal().iter().map(|script| script.own_process).collect::<Vec<_>>();
        assert!(alone[0] && !alone[1..].contains(&true), "{alone:?}");
    }
}
