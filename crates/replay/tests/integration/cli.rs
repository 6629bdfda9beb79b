// SPDX-License-Identifier: MIT OR Apache-2.0
//! The binary on bad input: one line on standard error, exit code 2, and no
//! file written or changed.

use std::process::Command;

fn refused(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    std::fs::write(&json, "as it was").expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_metrale-replay"))
        .args(arguments)
        .arg("--json")
        .arg(&json)
        .output()
        .expect("run");
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    assert_eq!(output.stdout, b"", "{arguments:?}");
    assert_eq!(error.lines().count(), 1, "{arguments:?}: {error:?}");
    assert!(error.starts_with("metrale-replay: "), "{arguments:?}: {error}");
    assert_eq!(std::fs::read(&json).expect("read"), b"as it was");
    assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1);
    error
}

#[test]
fn bad_flags() {
    assert!(refused(&["--bogus"]).contains("--bogus"));
    assert!(refused(&["--stamps", "x\ny"]).contains("ideal or honest"));
}

#[test]
fn bad_traces() {
    crate::common::needs_simulator();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bad.json");
    let name = path.to_str().expect("UTF-8");
    assert!(refused(&["--trace", name]).contains("bad.json: cannot be read"));
    for (text, expected) in [
        (&b""[..], "bad.json: is empty"),
        (b"{\"traceEvents\":[\n{]", "bad.json: line 2 column 2"),
        (b"\x1f\x8b\x08", "bad.json: byte 0: damaged gzip"),
        (b"[{}]", "bad.json: no GPU work"),
    ] {
        std::fs::write(&path, text).expect("written");
        let error = refused(&["--trace", name]);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn more_devices_than_there_can_be() {
    crate::common::needs_simulator();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("devices.json");
    let devices: Vec<String> = (0..70)
        .map(|device| {
            format!(
                r#"{{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1,"args":{{"device":{device}}}}}"#
            )
        })
        .collect();
    std::fs::write(&path, format!("[{}]", devices.join(","))).expect("written");
    let error = refused(&["--trace", path.to_str().expect("UTF-8")]);
    assert!(error.contains("names 70 devices; at most 64"), "{error}");
}

#[test]
fn help_is_no_error() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_metrale-replay")).arg("--help").output().expect("run");
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("--step-pattern"));
}
