// SPDX-License-Identifier: MIT OR Apache-2.0
//! The workspace and its cargo: root, target folder, and builds whose files are
//! found from cargo's own messages instead of guessed paths.

use std::{
    ffi::OsString,
    io::BufReader,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

use cargo_metadata::{Artifact, CrateType, Message, Metadata, MetadataCommand, TargetKind};
use xshell::Shell;

use crate::{
    error::{Context, Error, Result, failed},
    program,
};

/// The workspace's root folder: the one whose alias runs this task. What was
/// compiled in may be another checkout's where two share a target folder.
pub(crate) fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let here = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        here.parent().map_or(here.clone(), Path::to_path_buf)
    });
    &ROOT
}

/// A shell in the root.
pub(crate) fn shell() -> Result<Shell> {
    let sh = Shell::new()?;
    sh.change_dir(root());
    Ok(sh)
}

/// The workspace's metadata, members only.
pub(crate) fn metadata() -> Result<Metadata> {
    Ok(MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec()?)
}

/// Whether `cargo nextest` is installed.
pub(crate) fn has_nextest() -> bool {
    program::runs("cargo", &["nextest", "--version"])
}

/// Runs a building cargo command in the root and returns what it made.
pub(crate) fn build(args: &[&str], envs: &[(&str, OsString)]) -> Result<Vec<Artifact>> {
    build_in(root(), args, envs)
}

/// As [`build`], in another workspace. Progress and diagnostics go to stderr.
pub(crate) fn build_in(
    root: &Path,
    args: &[&str],
    envs: &[(&str, OsString)],
) -> Result<Vec<Artifact>> {
    let asked = || format!("cargo {}", args.join(" "));
    let mut child = Command::new("cargo")
        .args(args)
        .arg("--message-format=json-render-diagnostics")
        .envs(envs.iter().map(|(name, value)| (name, value)))
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context(asked)?;
    let mut artifacts = Vec::new();
    let stdout = child.stdout.take();
    for message in stdout.into_iter().flat_map(|pipe| Message::parse_stream(BufReader::new(pipe))) {
        if let Message::CompilerArtifact(artifact) = message.context(asked)? {
            artifacts.push(artifact);
        }
    }
    let status = child.wait().context(asked)?;
    if status.success() {
        Ok(artifacts)
    } else {
        failed(format!("`{}` failed, see above", asked()))
    }
}

/// Builds the test binaries that `args` name, of the workspace at `root`.
pub(crate) fn tests(root: &Path, args: &[&str], envs: &[(&str, OsString)]) -> Result<Vec<PathBuf>> {
    let artifacts = build_in(root, &[&["test", "--no-run"], args].concat(), envs)?.into_iter();
    let tests = artifacts.filter(|artifact| artifact.profile.test);
    Ok(tests.filter_map(|artifact| artifact.executable.map(PathBuf::from)).collect())
}

/// The variable that cargo reads compiler flags from, with these added.
pub(crate) fn with_flags(flags: &[&str]) -> (&'static str, OsString) {
    with_flags_in(&|name| std::env::var_os(name), flags)
}

/// The encoded variable wins where both are set, so it is the one to add to.
fn with_flags_in(
    var: &dyn Fn(&str) -> Option<OsString>,
    added: &[&str],
) -> (&'static str, OsString) {
    let (name, separator) = match var("CARGO_ENCODED_RUSTFLAGS") {
        Some(_) => ("CARGO_ENCODED_RUSTFLAGS", "\x1f"),
        None => ("RUSTFLAGS", " "),
    };
    let mut flags = var(name).unwrap_or_default();
    for flag in added {
        if !flags.is_empty() {
            flags.push(separator);
        }
        flags.push(flag);
    }
    (name, flags)
}

/// The dynamic library of crate `target` (its underscored name) among `artifacts`.
pub(crate) fn cdylib(artifacts: &[Artifact], target: &str) -> Result<PathBuf> {
    artifacts
        .iter()
        .filter(|a| a.target.name == target && a.target.crate_types.contains(&CrateType::CDyLib))
        .flat_map(|a| &a.filenames)
        .find(|file| file.extension() == Some(std::env::consts::DLL_EXTENSION))
        .map(|file| file.clone().into())
        .ok_or_else(|| missing("dynamic library", target))
}

/// The binary `target` among `artifacts`.
pub(crate) fn binary(artifacts: &[Artifact], target: &str) -> Result<PathBuf> {
    artifacts
        .iter()
        .filter(|a| a.target.name == target && a.target.kind.contains(&TargetKind::Bin))
        .find_map(|a| a.executable.clone())
        .map(PathBuf::from)
        .ok_or_else(|| missing("binary", target))
}

fn missing(kind: &str, target: &str) -> Error {
    Error::Failed(format!("cargo made no {kind} {target}; is its Cargo.toml still right?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_added_to_the_variable_that_wins() {
        let flags = |set: &'static [(&str, &str)]| {
            let var = |name: &str| {
                let found = set.iter().find(|(n, _)| *n == name);
                found.map(|(_, value)| OsString::from(value))
            };
            with_flags_in(&var, &["--cfg", "metrale_loom"])
        };
        assert_eq!(flags(&[]), ("RUSTFLAGS", "--cfg metrale_loom".into()));
        assert_eq!(
            flags(&[("RUSTFLAGS", "-Copt-level=1")]),
            ("RUSTFLAGS", "-Copt-level=1 --cfg metrale_loom".into())
        );
        assert_eq!(
            flags(&[("RUSTFLAGS", "-Ca"), ("CARGO_ENCODED_RUSTFLAGS", "-Cb")]),
            ("CARGO_ENCODED_RUSTFLAGS", "-Cb\x1f--cfg\x1fmetrale_loom".into())
        );
    }
}
