// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether another reader, HolisticTraceAnalysis, finds in exported timelines what
//! we measured. It is Python: where there is none this is skipped with a printed
//! reason, and fails under `CI=true`.

use std::{fs, path::PathBuf};

use xshell::{Shell, cmd};

use crate::{
    cargo, demo,
    error::{Context, Error, Result},
    program,
};

/// The check and what it needs.
const FOLDER: &str = "crates/replay/tests/hta";
/// One armed step in so many: as many as a recording can have.
const EVERY: &str = "128";
const STEPS: &str = "64";

pub(crate) fn run() -> Result<()> {
    if !program::runs("python3", &["-c", "import ensurepip, venv"]) {
        if std::env::var_os("CI").is_some_and(|ci| ci == "true") {
            return Err(Error::NoPython);
        }
        println!(
            "skipped: HolisticTraceAnalysis (no python3 with venv; on Debian: apt-get install \
             python3-venv)"
        );
        return Ok(());
    }
    let sh = Shell::new()?;
    sh.change_dir(cargo::root());
    let python = environment(&sh)?;
    let folder = tempfile::tempdir().context(|| "make a temporary folder".to_owned())?;
    let (timeline, report) = (
        folder.path().join("timeline.json"),
        folder.path().join("report.json"),
    );
    let arguments = [
        "--driver".into(),
        "sim".into(),
        "--every".into(),
        EVERY.into(),
        "--record-steps".into(),
        STEPS.into(),
        "--timeline".into(),
        timeline.clone().into(),
        "--json".into(),
        report.clone().into(),
    ];
    demo::run(&arguments)?;
    cmd!(
        sh,
        "{python} -W ignore {FOLDER}/check.py {timeline} {report}"
    )
    .run()?;
    Ok(())
}

/// The Python that has what the check needs; it is installed where it is not there.
fn environment(sh: &Shell) -> Result<PathBuf> {
    let folder = cargo::root().join("target/hta");
    let python = folder.join("bin/python");
    let wanted = format!("{FOLDER}/requirements.txt");
    let wanted_text = sh.read_file(&wanted)?;
    let installed = folder.join("installed.txt");
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted_text) {
        return Ok(python);
    }
    cmd!(sh, "python3 -m venv --clear {folder}").run()?;
    // Each is pinned there, with all that it needs.
    cmd!(
        sh,
        "{python} -m pip install --quiet --disable-pip-version-check --no-deps --requirement {wanted}"
    )
    .run()?;
    sh.write_file(&installed, wanted_text)?;
    Ok(python)
}
