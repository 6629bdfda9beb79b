// SPDX-License-Identifier: MIT OR Apache-2.0
//! The workspace and its cargo: root, target folder, and builds whose files are
//! found from cargo's own messages instead of guessed paths.

use std::{
    ffi::OsString,
    io::{BufRead, BufReader, IsTerminal},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

use cargo_metadata::{Artifact, CrateType, Message, Metadata, MetadataCommand, TargetKind};
use xshell::Shell;

use crate::{
    error::{Context, Error, Result},
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

/// As [`build`], in another workspace.
///
/// Progress and diagnostics go to stderr. The line that says a build is finished
/// is left out, so that a build with nothing to do says nothing.
pub(crate) fn build_in(
    root: &Path,
    args: &[&str],
    envs: &[(&str, OsString)],
) -> Result<Vec<Artifact>> {
    let asked = || format!("cargo {}", args.join(" "));
    let mut command = Command::new("cargo");
    command
        .args(args)
        .arg("--message-format=json-render-diagnostics")
        .envs(envs.iter().map(|(name, value)| (name, value)))
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let plain = ["CARGO_TERM_COLOR", "NO_COLOR"];
    if std::io::stderr().is_terminal() && plain.iter().all(|v| std::env::var_os(v).is_none()) {
        // Cargo sees a pipe, the reader sees a terminal.
        command.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = command.spawn().context(asked)?;
    let stderr = child.stderr.take();
    let relay = std::thread::spawn(move || {
        for line in stderr.into_iter().flat_map(|pipe| BufReader::new(pipe).lines()) {
            match line {
                Ok(line) if line.contains("Finished") && line.contains(" profile [") => {}
                Ok(line) => eprintln!("{line}"),
                Err(_) => break,
            }
        }
    });
    let mut artifacts = Vec::new();
    let stdout = child.stdout.take();
    for message in stdout.into_iter().flat_map(|pipe| Message::parse_stream(BufReader::new(pipe))) {
        if let Message::CompilerArtifact(artifact) = message.context(asked)? {
            artifacts.push(artifact);
        }
    }
    let status = child.wait().context(asked)?;
    // The relay cannot fail: it ends when cargo closes its stderr.
    let _ = relay.join();
    if status.success() { Ok(artifacts) } else { Err(Error::Build(args[1..].join(" "))) }
}

/// The dynamic library of crate `target` (its underscored name) among `artifacts`.
pub(crate) fn cdylib(artifacts: &[Artifact], target: &str) -> Result<PathBuf> {
    artifacts
        .iter()
        .filter(|a| a.target.name == target && a.target.crate_types.contains(&CrateType::CDyLib))
        .flat_map(|a| &a.filenames)
        .find(|file| file.extension() == Some(std::env::consts::DLL_EXTENSION))
        .map(|file| file.clone().into())
        .ok_or_else(|| Error::NoArtifact(format!("dynamic library {target}")))
}

/// The binary `target` among `artifacts`.
pub(crate) fn binary(artifacts: &[Artifact], target: &str) -> Result<PathBuf> {
    artifacts
        .iter()
        .filter(|a| a.target.name == target && a.target.kind.contains(&TargetKind::Bin))
        .find_map(|a| a.executable.clone())
        .map(PathBuf::from)
        .ok_or_else(|| Error::NoArtifact(format!("binary {target}")))
}
