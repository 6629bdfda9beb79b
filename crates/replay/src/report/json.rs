// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result as a JSON file.
//!
//! Invariant: the path holds what it held before, or all of the new text.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::Report;

/// Why the JSON was not written; the path holds what it held before.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot be written: {source}", path.display())]
pub struct WriteError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Writes `report` beside `path`, then renames it to `path`.
///
/// # Errors
///
/// [`WriteError`] where the folder is absent or not writable.
pub fn write_json_atomically(path: &Path, report: &Report) -> Result<(), WriteError> {
    write(path, report).map_err(|source| WriteError {
        path: path.to_owned(),
        source,
    })
}

fn write(path: &Path, report: &Report) -> io::Result<()> {
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
    let mut text = serde_json::to_vec(report).map_err(io::Error::other)?;
    text.push(b'\n');
    file.write_all(&text)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::sample::report;
    use super::*;

    #[test]
    fn the_json_is_schema_two() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.json");
        std::fs::write(&path, "old").expect("an old file");
        write_json_atomically(&path, &report()).expect("written");
        let text = std::fs::read_to_string(&path).expect("read");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let keys = |value: &serde_json::Value| -> Vec<String> {
            value
                .as_object()
                .expect("an object")
                .keys()
                .cloned()
                .collect()
        };
        let sorted = |words: &str| -> Vec<String> {
            let mut words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            words.sort();
            words
        };
        assert_eq!(
            keys(&value),
            sorted(
                "schema driver driver_path device trace every stamps steps armed_steps lanes \
                 devices kernels graphs ledger driver_calls check slowest_steps notes"
            )
        );
        assert_eq!(
            keys(&value["lanes"][1]),
            sorted(
                "lane spans total_ns p50_ns p99_ns gaps gap_ns gap_p50_ns missed overlap_ns \
                 overlap_lanes_ns overruns device armed_ns busy_ns idle_ns lead_ns waited_ns \
                 tail_ns overlap_busy_ns incomplete_steps incomplete_ns outside_ns"
            )
        );
        assert_eq!(
            keys(&value["devices"][0]),
            sorted("device span_ns busy_ns idle_ns")
        );
        assert_eq!(
            keys(&value["kernels"][0]),
            sorted("name samples total_ns missed overruns kind device in_graph busy_start_samples")
        );
        assert_eq!(keys(&value["graphs"]), sorted("launches kernels"));
        assert_eq!(
            keys(&value["ledger"]),
            sorted(
                "attempts begun landed dropped refused failed cancelled reclaimed in_flight \
                 stale_ends table_full"
            )
        );
        assert_eq!(
            keys(&value["check"]["lanes"]),
            sorted(
                "overlap_ns rounding_ns missed_spans missed_ns rowless rowless_ns unexplained_ns"
            )
        );
        let slowest = &value["slowest_steps"][0];
        assert_eq!(
            keys(slowest),
            sorted("gpu_ns number armed incomplete shape wall_ns age_ns lanes")
        );
        assert_eq!(
            keys(&slowest["shape"]),
            sorted("prompt_tokens decode_tokens requests")
        );
        assert_eq!(keys(&slowest["lanes"][0]), sorted("lane gpu_ns gap_ns"));
        assert_eq!(value["schema"], 2);
        assert_eq!(value["driver"], "simulated");
        assert_eq!(value["stamps"], "honest");
        assert_eq!(value["trace"], serde_json::Value::Null);
        assert_eq!(value["lanes"][1]["overlap_ns"], 112);
        assert_eq!(value["driver_calls"]["cuEventRecord"], 466);
        assert_eq!(value["kernels"][0]["kind"], "kernel");
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let absent = folder.path().join("absent/report.json");
        let error = write_json_atomically(&absent, &report()).expect_err("no folder");
        assert!(error.to_string().contains("absent/report.json"), "{error}");
        write_json_atomically(folder.path(), &report()).expect_err("a folder");
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
    }
}
