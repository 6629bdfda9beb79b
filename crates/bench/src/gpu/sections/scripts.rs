// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulator's call scripts, run against this driver: where it answers
//! something else, the simulator is wrong or the driver is another one.

use super::{Body, Section};
use crate::gpu::Failure;
use crate::gpu::cuda::{Functions, library};
use crate::gpu::page::Keeper;
use metrale_gpu_sim::scripts::{self, Script};
use metrale_gpu_sys::cuda::Driver;
use serde_json::json;

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

fn measure(driver: &Driver, device: u32, page: &Keeper) -> Result<(), Failure> {
    let library = library(driver)?;
    let source = |name: &str| {
        // SAFETY: the symbol is only taken as an address here.
        let found = unsafe { library.get::<*const std::ffi::c_void>(name.as_bytes()) };
        found.ok().map(|address| *address)
    };
    let columns = ["script", "line", "call", "expected", "found"];
    let table = page.table("differences", "Differences.", &columns);
    let (scripts, mut is_held, mut differ) = (legal(), false, 0);
    for script in &scripts {
        if !script.own_process && !is_held {
            // Made once: making it anew for each script takes a real driver long.
            Functions::load(driver)?.context(device)?;
            is_held = true;
        }
        page.trying(format!("script {}", script.name));
        // SAFETY: the functions are the driver's, and this process does nothing
        // else with it.
        let differences = unsafe { script.run(&source) }.err().unwrap_or_default();
        differ += differences.len();
        for step in differences {
            table.row(json!([script.name, step.line, step.call, step.expected, step.found]));
        }
    }
    page.note(format!("{} scripts ran; {differ} steps differ.", scripts.len()));
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
