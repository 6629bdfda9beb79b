// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether another reader, HolisticTraceAnalysis, finds in exported timelines what
//! we measured. It is Python: where there is none this is skipped with a printed
//! reason, and fails under `CI=true`.

use xshell::{Shell, cmd};

use crate::{
    cargo, demo,
    error::{Context, Result},
    python,
};

/// The check and what it needs.
const FOLDER: &str = "crates/replay/tests/hta";
/// One armed step in so many: as many as a recording can have.
const EVERY: &str = "128";
const STEPS: &str = "64";

pub(crate) fn run() -> Result<()> {
    let sh = Shell::new()?;
    sh.change_dir(cargo::root());
    let requirements = format!("{FOLDER}/requirements.txt");
    // It asks for a notebook too.
    let options = ["--no-deps"];
    let Some(environment) = python::environment(&sh, "hta", &requirements, &options)? else {
        return Ok(());
    };
    let python = environment.join("bin/python");
    let folder = tempfile::tempdir().context(|| "make a temporary folder".to_owned())?;
    let (timeline, report) =
        (folder.path().join("timeline.json"), folder.path().join("report.json"));
    let words = ["--driver", "sim", "--every", EVERY, "--record-steps", STEPS, "--timeline"];
    let files = [timeline.clone().into(), "--json".into(), report.clone().into()];
    let arguments: Vec<_> = words.map(Into::into).into_iter().chain(files).collect();
    demo::run(&arguments)?;
    cmd!(sh, "{python} -W ignore {FOLDER}/check.py {timeline} {report}").run()?;
    Ok(())
}
