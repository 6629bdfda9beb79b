// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outputs in the README and in docs/replay.md are those of the program:
//! every line, but for the paths of the driver and the trace, and what a line `…`
//! stands for.

use std::process::Command;

use crate::common::{needs_simulator, recorded};

/// The lines of the first text block after `command` on a page.
fn shown(page: &str, command: &str) -> Vec<String> {
    let path = format!("{}/../../{page}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect(page);
    let after = text.split_once(&format!("{command}\n")).expect(command).1;
    let block = after.split_once("```text\n").expect("a text block").1;
    let block = block.split_once("```").expect("an end").0;
    without_paths(block)
}

fn printed(arguments: &[&str]) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_metrale-replay"))
        .args(arguments)
        .args(["--driver", "sim"])
        .output()
        .expect("run");
    assert!(output.status.success());
    without_paths(&String::from_utf8(output.stdout).expect("UTF-8"))
}

/// Leaves out the facts that hold a path, with the lines they run on to.
fn without_paths(page: &str) -> Vec<String> {
    let mut in_path = false;
    let keep = |line: &&str| {
        if !line.starts_with(' ') {
            in_path = line.starts_with("driver ") || line.starts_with("replay ");
        }
        !in_path
    };
    page.lines().filter(keep).map(str::to_owned).collect()
}

/// `printed` is `shown`, with lines of its own only where that has `…`.
fn assert_shown(shown: &[String], printed: &[String]) {
    let mut rest = printed;
    let mut skips = false;
    for line in shown {
        if line == "…" {
            skips = true;
            continue;
        }
        let at = rest.iter().position(|other| other == line);
        let at = at.unwrap_or_else(|| panic!("{line:?} is not in {rest:#?}"));
        assert!(skips && at > 0 || !skips && at == 0, "before {line:?}: {:#?}", &rest[..at]);
        rest = &rest[at + 1..];
        skips = false;
    }
    assert_eq!(skips, !rest.is_empty(), "after the last line: {rest:#?}");
}

#[test]
fn the_demo() {
    needs_simulator();
    assert_shown(&shown("README.md", "cargo xtask test"), &printed(&[]));
}

#[test]
fn a_recorded_timeline() {
    needs_simulator();
    let mut traces = recorded().into_iter();
    let Some(trace) = traces.find(|trace| trace.name == "vllm-prefill-decode-piecewise") else {
        return;
    };
    let command = "cargo xtask demo --every 1 --stamps ideal --trace \
                   vllm-prefill-decode-piecewise.json.gz";
    assert_shown(
        &shown("docs/replay.md", command),
        &printed(&["--every", "1", "--stamps", "ideal", "--trace", &trace.path()]),
    );
}
