// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the recorded traces are, and whether they may be missing.
//!
//! METRALE_TRACES names the folder; unset, it is `../shared/traces` from the
//! project's root. `skip` runs without it. A folder that was named, or any
//! folder under CI=true, must be there; elsewhere the tests that read it are
//! skipped and say so. The tests follow the same rule.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use crate::{
    error::{Result, failed},
    program,
};

/// The variable that names the folder.
pub(crate) const VAR: &str = "METRALE_TRACES";

/// Their folder; `None` where the tests that read them are skipped.
pub(crate) fn find(root: &Path) -> Result<Option<PathBuf>> {
    let named = std::env::var_os(VAR);
    decide(root, named, program::is_ci())
}

fn decide(root: &Path, named: Option<OsString>, ci: bool) -> Result<Option<PathBuf>> {
    if named.as_deref() == Some(OsStr::new("skip")) {
        return Ok(None);
    }
    let must = ci || named.is_some();
    let folder = root.join(named.unwrap_or_else(|| "../shared/traces".into()));
    match folder.canonicalize() {
        Ok(found) if found.is_dir() => Ok(Some(found)),
        _ if must => failed(format!(
            "no recorded traces at {}; put the folder there, point {VAR} at it, or set {VAR}=skip \
             to go on without the tests that read them",
            folder.display()
        )),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_is_an_error_only_where_the_folder_is_owed() {
        let tree = tempfile::tempdir().expect("a folder");
        let root = tree.path().join("project");
        std::fs::create_dir(&root).expect("project");
        let skipped = |named: Option<&str>, ci| {
            matches!(decide(&root, named.map(OsString::from), ci), Ok(None))
        };
        assert!(skipped(None, false));
        assert!(skipped(Some("skip"), false));
        assert!(skipped(Some("skip"), true));
        assert!(decide(&root, None, true).is_err());
        assert!(decide(&root, Some("nowhere".into()), false).is_err());

        let folder = tree.path().join("shared/traces");
        std::fs::create_dir_all(&folder).expect("traces");
        let there = Some(folder.canonicalize().expect("traces"));
        assert_eq!(decide(&root, None, true).expect("default"), there);
        let named = Some("../shared/traces".into());
        assert_eq!(decide(&root, named, false).expect("named"), there);
        assert!(skipped(Some("skip"), true));
    }
}
