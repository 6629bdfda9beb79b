// SPDX-License-Identifier: MIT OR Apache-2.0
//! A copy of the project in which mistakes are made, to show that tests catch them.
//! The product has no hooks for this: a variant is the shipped text with a change.

use std::{
    collections::HashMap,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    error::{Context, Result},
    tidy::tree::File,
};

/// What runs longer has not caught anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// See the module.
pub(crate) struct Scratch {
    folder: tempfile::TempDir,
    originals: HashMap<String, String>,
}

impl Scratch {
    pub(crate) fn new(files: &[File]) -> Result<Self> {
        let folder = tempfile::tempdir().context(|| "make a temporary folder".to_owned())?;
        for file in files {
            write(folder.path(), &file.path, &file.text)?;
        }
        let originals = files.iter().map(|file| (file.path.clone(), file.text.clone())).collect();
        Ok(Self { folder, originals })
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Does something with these files changed, given by path with their whole text.
    pub(crate) fn with<T>(
        &self,
        changed: &[(String, String)],
        body: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        for (path, text) in changed {
            write(self.root(), path, text)?;
        }
        let done = body();
        for (path, _) in changed {
            write(self.root(), path, &self.originals[path])?;
        }
        done
    }
}

/// Runs tests of a binary in a process of its own: whether and how they did not pass.
pub(crate) fn fails(binary: &Path, args: &[&str]) -> Result<Option<&'static str>> {
    let what = || format!("run {} of {}", args.join(" "), binary.display());
    let mut child = Command::new(binary)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context(what)?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context(what)? {
            return Ok((!status.success()).then_some("fails"));
        }
        if start.elapsed() > PATIENCE {
            child.kill().context(what)?;
            child.wait().context(what)?;
            return Ok(Some("takes too long"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn write(root: &Path, path: &str, text: &str) -> Result<()> {
    let path = root.join(path);
    let what = || format!("write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).context(what)?;
    }
    fs::write(&path, text).context(what)
}
