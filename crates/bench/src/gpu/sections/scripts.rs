// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulator's call scripts, run against this driver: where it answers
//! something else, the simulator is wrong or the driver is another one.

use super::{Body, Section};
use crate::gpu::Failure;
use crate::gpu::cuda::{Functions, called, library};
use crate::gpu::item::{Cell, Item, Table};
use crate::gpu::options::Part;
use crate::gpu::parent;
use crate::gpu::run::Tell;
use metrale_gpu_sim::scripts::{self, Script};
use metrale_gpu_sys::cuda::Driver;
use std::time::{Duration, Instant};

pub(super) const SECTION: Section = Section {
    id: "scripts",
    title: "The simulator's scripts",
    about: "Each script is a list of calls with the statuses that the simulated driver answers. A difference \
            is a finding about the simulator, not a fault of this machine.",
    seconds: 60,
    body: Body::OnDriver(measure),
};

/// The part that runs scripts from an entry of the list on.
pub(super) const ID: &str = "scripts-from";

/// A script takes less, even where it waits for its kernels.
const QUIET: Duration = Duration::from_secs(6);
/// How often the scripts are taken up again after one that ended the process.
const DEATHS: u32 = 8;

/// Those that may run on a GPU.
fn legal() -> Vec<Script> {
    let all = scripts::all().into_iter();
    all.filter(|script| script.hardware).collect()
}

/// Runs all of them, each part in a process of its own: a script that is wrong
/// may end its process.
fn measure(_: &Driver, tell: &Tell, part: &Part) -> Result<(), Failure> {
    let began = Instant::now();
    let time = Duration::from_secs(part.seconds.into());
    let scripts = legal();
    let columns = [
        ("script", ""),
        ("line", "count"),
        ("call", ""),
        ("expected", ""),
        ("found", ""),
    ];
    let mut table = Table::new("differences", "Differences.", &columns);
    let (mut next, mut deaths) = (0, 0);
    while next < scripts.len() {
        let left = time.saturating_sub(began.elapsed());
        if left < Duration::from_secs(1) || deaths > DEATHS {
            break;
        }
        let from = next;
        let end = parent::run(&tell.options, ID, from, (left, QUIET), &mut |item| {
            if let Item::Table(found) = item {
                table.rows.extend(found.rows);
                next += 1;
                tell.table(&table);
            }
        });
        if let Some(why) = end.failure() {
            deaths += 1;
            let name = scripts.get(next).map_or("?", |script| &script.name);
            let cells = [
                name.into(),
                Cell::None("-".into()),
                "-".into(),
                "-".into(),
                why.into(),
            ];
            table.row(cells);
            next += 1;
            tell.table(&table);
        } else if next == from {
            return Err(Failure::Other(
                "the scripts' process told nothing".to_owned(),
            ));
        }
    }
    tell.table(&table);
    let (ran, all, found) = (next, scripts.len(), table.rows.len());
    tell.note(format!("{ran} of {all} scripts ran; {found} differences."));
    if ran < all {
        return Err(Failure::Other(format!("{} scripts did not run", all - ran)));
    }
    Ok(())
}

/// Keeps the primary context that scripts take and give back: making it anew for
/// each takes a real driver long.
fn hold(driver: &Driver, tell: &Tell) -> Result<(), Failure> {
    let more = Functions::load(driver)?;
    // SAFETY: takes flags.
    called(c"cuInit", unsafe { (more.init)(0) })?;
    let ordinal = i32::try_from(tell.options.device).unwrap_or(i32::MAX);
    let mut context = 0;
    // SAFETY: a pointer to a live handle.
    let retained = unsafe { (more.retain)(&raw mut context, ordinal) };
    called(c"cuDevicePrimaryCtxRetain", retained)
}

/// Runs the scripts from `part.from` on, up to one that has to have a process of
/// its own; tells a table of differences after each.
pub(super) fn some(driver: &Driver, tell: &Tell, part: &Part) -> Result<(), Failure> {
    let library = library(driver)?;
    let source = |name: &str| {
        // SAFETY: the symbol is only taken as an address here.
        let found = unsafe { library.get::<*const std::ffi::c_void>(name.as_bytes()) };
        found.ok().map(|address| *address)
    };
    let mut is_held = false;
    for (at, script) in legal().iter().enumerate().skip(part.from) {
        if script.own_process && at > part.from {
            break;
        }
        if !script.own_process && !is_held {
            hold(driver, tell)?;
            is_held = true;
        }
        tell.trying(format!("script {}", script.name));
        // SAFETY: the functions are the driver's, and this process does nothing
        // else with it.
        let differences = unsafe { script.run(&source) }.err().unwrap_or_default();
        let mut table = Table::new(&script.name, "", &[]);
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
        if script.own_process {
            break;
        }
    }
    Ok(())
}
