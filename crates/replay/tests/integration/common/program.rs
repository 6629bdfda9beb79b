// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program, run on the simulated driver.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::Sums;
use super::record::file;

/// Runs the program and gives its JSON and its text.
pub(crate) fn replay(arguments: &[&str]) -> (Value, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let output = Command::new(env!("CARGO_BIN_EXE_metrale-replay"))
        .args(arguments)
        .args(["--driver", "sim", "--json"])
        .arg(&json)
        .output()
        .expect("run");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    assert_eq!(error, "", "no bar where standard error is no terminal");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(!text.contains('\u{1b}'), "no colour where there is no terminal");
    let json = std::fs::read(&json).expect("written");
    (serde_json::from_slice(&json).expect("JSON"), text)
}

/// The same with a recording that a test wrote.
pub(crate) fn replay_events(events: &[String], arguments: &[&str]) -> (Value, String) {
    super::needs_simulator();
    replay(&[arguments, &["--trace", &file(events).path]].concat())
}

/// A replay that serves; it ends with this.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) port: u16,
    /// What else it says.
    pub(crate) out: BufReader<ChildStdout>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    /// On a free port.
    pub(crate) fn start<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Self {
        Self::start_on(0, arguments)
    }

    pub(crate) fn start_on<A: AsRef<OsStr>>(
        port: u16,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_metrale-replay"));
        command.args(arguments);
        Self::of(command, port)
    }

    /// By a command that runs the program.
    pub(crate) fn of(mut command: Command, port: u16) -> Self {
        super::needs_simulator();
        command.args(["--driver", "sim", "--serve"]).arg(format!("127.0.0.1:{port}"));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut lines = out.by_ref().lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            let at = line.strip_prefix("serving   http://127.0.0.1:")?;
            at.split('/').next()?.parse().ok()
        });
        Self { child, port: port.expect("it says where it serves"), out }
    }
}

/// The rows of kernels, in graphs or not: samples and nanoseconds.
pub(crate) fn kernels(json: &Value, in_graph: bool) -> Sums {
    let rows = json["kernels"].as_array().expect("rows").iter();
    let rows = rows.filter(|row| row["kind"] == "kernel" && row["in_graph"] == in_graph);
    let sum = |row: &Value| {
        assert_eq!(row["missed"], 0, "{row}");
        let name = row["name"].as_str().expect("a name");
        (name.to_owned(), (number(&row["samples"]), number(&row["total_ns"])))
    };
    rows.map(sum).collect()
}

/// The page's rows of kernels, each by its words.
pub(crate) fn rows(page: &str) -> Vec<Vec<&str>> {
    let table = page.split("\n\n").nth(2).expect("a table of kernels");
    let rows = table.lines().skip(1);
    rows.map(|line| line.split_whitespace().collect()).collect()
}

/// What the page says under a label, in one line; nothing where it says nothing.
pub(crate) fn fact(page: &str, label: &str) -> String {
    let facts = page.rsplit("\n\n").next().expect("facts");
    let mut lines = facts.lines().skip_while(|line| !line.starts_with(label));
    let first = lines.next().unwrap_or(label);
    let rest = lines.take_while(|line| line.starts_with(' '));
    let words = std::iter::once(&first[label.len()..]).chain(rest);
    let words = words.flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ")
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().expect("a whole number")
}
