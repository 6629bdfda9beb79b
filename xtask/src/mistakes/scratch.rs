// SPDX-License-Identifier: MIT OR Apache-2.0
//! A copy of the project in which one thing after another is changed, built and tested.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use wait_timeout::ChildExt;

use crate::{
    cargo,
    error::{Context, Result, failed},
    tidy::tree::File,
};

/// What runs longer has not caught anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// See the module. The registry's crates are built once for all that is changed in it,
/// and stay in the target folder for the next time.
pub(super) struct Scratch {
    folder: tempfile::TempDir,
    originals: HashMap<String, String>,
    envs: Vec<(&'static str, OsString)>,
}

impl Scratch {
    /// A copy of `files` that is built in its own folder `target`, with these flags.
    pub(super) fn new(files: &[File], target: &str, flags: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir().context(|| "make a temporary folder".to_owned())?;
        for file in files {
            write(folder.path(), &file.path, &file.text)?;
        }
        let originals = files.iter().map(|file| (file.path.clone(), file.text.clone())).collect();
        let target = cargo::metadata()?.target_directory.join(target);
        let envs = vec![
            // A change may leave something unused.
            cargo::with_flags(&[flags, &["-Awarnings"]].concat()),
            ("CARGO_TARGET_DIR", target.into_os_string()),
            ("CARGO_TERM_QUIET", "true".into()),
        ];
        Ok(Self { folder, originals, envs })
    }

    /// Builds tests, one binary that `args` name.
    pub(super) fn tests(&self, args: &[&str]) -> Result<PathBuf> {
        let built = cargo::tests(self.folder.path(), args, &self.envs)?;
        built.into_iter().next().map_or_else(|| failed("no tests were built"), Ok)
    }

    /// Does something with these files changed, given by path with their whole text.
    pub(super) fn with<T>(
        &self,
        changed: &[(String, String)],
        body: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        for (path, text) in changed {
            write(self.folder.path(), path, text)?;
        }
        let done = body();
        for (path, _) in changed {
            write(self.folder.path(), path, &self.originals[path])?;
        }
        done
    }
}

/// Runs tests of a binary in a process of its own: whether and how they did not pass.
pub(super) fn fails(binary: &Path, args: &[&str]) -> Result<Option<&'static str>> {
    let what = || format!("run {} of {}", args.join(" "), binary.display());
    let mut child = Command::new(binary)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context(what)?;
    if let Some(status) = child.wait_timeout(PATIENCE).context(what)? {
        return Ok((!status.success()).then_some("fails"));
    }
    child.kill().context(what)?;
    child.wait().context(what)?;
    Ok(Some("takes too long"))
}

fn write(root: &Path, path: &str, text: &str) -> Result<()> {
    let path = root.join(path);
    let what = || format!("write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).context(what)?;
    }
    fs::write(&path, text).context(what)
}
