// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that are there whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// A file could not be written; what was there before is as it was.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot be written: {source}", path.display())]
#[non_exhaustive]
pub struct WriteError {
    /// The file that was asked for.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Lets `write` write a file beside `path`, then renames it to `path`.
///
/// # Errors
/// [`WriteError`] where the folder is absent or not writable, or `write` fails.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>,
) -> Result<(), WriteError> {
    write_and_rename(path, write).map_err(|source| WriteError { path: path.to_owned(), source })
}

fn write_and_rename(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>,
) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // A rename is atomic only within one file system, so in the same folder.
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // Narrowed by the user's mask like any file; the default is 0600.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.prefix(".metrale-").tempfile_in(folder)?;
    let mut out = BufWriter::new(file.as_file_mut());
    write(&mut out)?;
    out.flush()?;
    drop(out);
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.json");
        std::fs::write(&path, "old").expect("an old file");
        let failed = write_whole(&path, |out| {
            out.write_all(b"ne")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).expect("read"), b"old");
        write_whole(&path, |out| out.write_all(b"new")).expect("written");
        assert_eq!(std::fs::read(&path).expect("read"), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1);
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let absent = folder.path().join("absent/report.json");
        let error = write_whole(&absent, |_| Ok(())).expect_err("no folder");
        assert!(error.to_string().contains("absent/report.json"), "{error}");
        write_whole(folder.path(), |_| Ok(())).expect_err("a folder");
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
    }
}
