// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Python package: built as a wheel, installed into an environment of its own below the
//! target folder, and tested there on the simulated driver. Where there is no Python it is
//! skipped with a printed reason, and fails under `CI=true`.

use std::{ffi::OsString, fs, path::PathBuf};

use xshell::{Shell, cmd};

use crate::{
    cargo,
    error::{Result, failed},
    program, sim,
};

const PACKAGE: &str = "crates/python";

/// Builds the package and runs its tests; `args` go to pytest.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let sh = Shell::new()?;
    sh.change_dir(cargo::root());
    let requirements = format!("{PACKAGE}/requirements.txt");
    let Some(environment) = environment(&sh, "python", &requirements, &[])? else {
        return Ok(());
    };
    let target = cargo::metadata()?.target_directory.into_std_path_buf();
    let (python, wheels) = (environment.join("bin/python"), target.join("wheels"));
    sh.remove_path(&wheels)?;
    cmd!(
        sh,
        "{python} -m maturin build --quiet --profile dev --manifest-path {PACKAGE}/Cargo.toml --interpreter {python} --auditwheel skip --out {wheels}"
    )
    .run()?;
    for wheel in sh.read_dir(&wheels)? {
        cmd!(sh, "{python} -m pip install --quiet --force-reinstall --no-deps {wheel}").run()?;
    }
    // Out of the package's sources, so that what is tested is what was installed.
    let package = cargo::root().join(PACKAGE);
    let _folder = sh.push_dir(&target);
    let config = package.join("pyproject.toml");
    cmd!(sh, "{python} -m mypy --config-file {config} --package metrale").run()?;
    cmd!(sh, "{python} -m mypy.stubtest metrale").run()?;
    let tests = package.join("tests");
    cmd!(sh, "{python} -m pytest --quiet -p no:cacheprovider {tests} {args...}")
        .env("LD_LIBRARY_PATH", sim::build()?)
        .run()?;
    Ok(())
}

/// The folder, below the target folder, of an environment that has what is required, made where
/// it is not there; `options` go to pip. `None`, with a printed reason, where there is no Python;
/// an error under `CI=true`.
pub(crate) fn environment(
    sh: &Shell,
    name: &str,
    requirements: &str,
    options: &[&str],
) -> Result<Option<PathBuf>> {
    // Debian has the modules apart.
    if !program::runs("python3", &["-c", "import ensurepip, venv"]) {
        if program::is_ci() {
            return failed("no python3 with venv; on Debian: apt-get install python3-venv");
        }
        println!("skipped: {name} (no python3 with venv; on Debian: apt-get install python3-venv)");
        return Ok(None);
    }
    let text = sh.read_file(requirements)?;
    let environment = cargo::metadata()?.target_directory.into_std_path_buf().join(name);
    let held = environment.join("requirements.txt");
    if !fs::read_to_string(&held).is_ok_and(|held| held == text) {
        cmd!(sh, "python3 -m venv --clear {environment}").run()?;
        let python = environment.join("bin/python");
        cmd!(
            sh,
            "{python} -m pip install --quiet --disable-pip-version-check {options...} --requirement {requirements}"
        )
        .run()?;
        // Last: whoever finds it finds all.
        sh.write_file(held, text)?;
    }
    Ok(Some(environment))
}
