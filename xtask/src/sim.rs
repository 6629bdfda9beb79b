// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lays the simulated driver out as a loader expects a driver: `libcuda.so.1`
//! with `libcuda.so` a symlink to it.
//!
//! The folder is the target folder's `metrale-sim`, which is on nobody's library
//! path: cargo puts `debug` and `debug/deps` there, and under such a name in one of
//! those a GPU host would silently use the simulator.

use std::{
    fs,
    path::{Path, PathBuf},
};

use cargo_metadata::Artifact;

use crate::{
    cargo,
    error::{Context, Result},
};

/// The variable that tells children where the simulated driver lies.
pub(crate) const VAR: &str = "METRALE_SIM_DIR";

/// The package of the simulated driver.
pub(crate) const PACKAGE: &str = "metrale-gpu-sim";

const CRATE: &str = "metrale_gpu_sim";
const SONAME: &str = "libcuda.so.1";
const LINK: &str = "libcuda.so";

/// Builds the simulated driver, lays it out and returns its folder.
pub(crate) fn build() -> Result<PathBuf> {
    lay_out(&cargo::build(&["build", "--package", PACKAGE], &[])?)
}

/// Lays out the simulated driver that is among `artifacts`.
pub(crate) fn lay_out(artifacts: &[Artifact]) -> Result<PathBuf> {
    let library = cargo::cdylib(artifacts, CRATE)?;
    let folder = cargo::metadata()?.target_directory.join("metrale-sim");
    install(&library, folder.as_std_path())?;
    Ok(folder.into())
}

/// Puts `library` into `folder` under its two names, each by one rename, so that a
/// process that loads it meanwhile sees the old file or the new one, whole. A file
/// with the right content is left alone: it may be mapped.
fn install(library: &Path, folder: &Path) -> Result<()> {
    let what = || format!("lay out {} in {}", library.display(), folder.display());
    fs::create_dir_all(folder).context(what)?;
    let target = folder.join(SONAME);
    let content = fs::read(library).context(what)?;
    if fs::read(&target).ok().as_ref() != Some(&content) {
        let new = tempfile::NamedTempFile::new_in(folder).context(what)?;
        fs::copy(library, new.path()).context(what)?;
        new.persist(&target).map_err(|e| e.error).context(what)?;
    }
    let link = folder.join(LINK);
    if fs::read_link(&link).ok().as_deref() != Some(Path::new(SONAME)) {
        let new = tempfile::Builder::new()
            .make_in(folder, |path| std::os::unix::fs::symlink(SONAME, path))
            .context(what)?;
        new.persist(&link).map_err(|e| e.error).context(what)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("folder");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("entry").file_name().into_string().expect("name"))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn lays_out_both_names_and_replaces_only_what_changed() {
        let tree = tempfile::tempdir().expect("a folder");
        let library = tree.path().join("libmetrale_gpu_sim.so");
        let folder = tree.path().join("sim");
        let soname = folder.join(SONAME);
        fs::write(&library, "one").expect("library");

        install(&library, &folder).expect("first");
        assert_eq!(names(&folder), [LINK, SONAME]);
        assert_eq!(fs::read_link(folder.join(LINK)).expect("link"), Path::new(SONAME));
        assert_eq!(fs::read(folder.join(LINK)).expect("through link"), b"one");
        let inode = |path: &Path| fs::symlink_metadata(path).expect("file").ino();
        let before = (inode(&soname), inode(&folder.join(LINK)));

        install(&library, &folder).expect("again");
        assert_eq!((inode(&soname), inode(&folder.join(LINK))), before);

        let open = fs::File::open(&soname).expect("old");
        fs::write(&library, "two").expect("library");
        install(&library, &folder).expect("changed");
        assert_eq!(fs::read(&soname).expect("new"), b"two");
        assert_eq!(std::io::read_to_string(open).expect("old"), "one");
        assert_eq!(names(&folder), [LINK, SONAME]);
    }

    #[test]
    fn a_plain_file_under_the_links_name_gives_way() {
        let tree = tempfile::tempdir().expect("a folder");
        let library = tree.path().join("lib.so");
        fs::write(&library, "x").expect("library");
        fs::write(tree.path().join(LINK), "old").expect("file");
        install(&library, tree.path()).expect("install");
        assert_eq!(fs::read_link(tree.path().join(LINK)).expect("link"), Path::new(SONAME));
    }
}
