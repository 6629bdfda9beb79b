// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program as a profiler sees it: its ranges, by a listener that NVTX loads
//! through the environment.

use std::collections::BTreeMap;
use std::process::Command;

use crate::common::record::{file, overlapping_steps};

/// How often each path of ranges was pushed and popped, and how many armed steps
/// there were; `None` where no listener can be had.
fn ranges(arguments: &[&str]) -> Option<(Vec<(String, usize)>, usize)> {
    crate::common::needs_simulator();
    let Some(listener) = std::env::var_os("METRALE_NVTX_LISTENER") else {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "run `cargo xtask test`");
        println!("skipped: METRALE_NVTX_LISTENER is not set; `cargo xtask test` sets it");
        return None;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("ranges");
    let output = Command::new(env!("CARGO_BIN_EXE_metrale-replay"))
        .args(["--driver", "sim"])
        .args(arguments)
        .env("NVTX_INJECTION64_PATH", listener)
        .env("METRALE_NVTX_LOG", &log)
        .output()
        .expect("run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let text = std::fs::read_to_string(&log).expect("the listener wrote its log");
    let (mut open, mut ranges) = (Vec::new(), BTreeMap::<String, usize>::new());
    let mut armed = 0;
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match (fields[1], fields[2]) {
            ("push", "metrale") => {
                armed += usize::from(fields[3] == "step" && fields[5] == "1");
                open.push(fields[3]);
            }
            ("pop", "metrale") => {
                *ranges.entry(open.join("/")).or_default() += 1;
                open.pop().expect("pushed before");
            }
            ("category", _) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(open.is_empty());
    Some((ranges.into_iter().collect(), armed))
}

fn counted(expected: &[(&str, usize)]) -> Vec<(String, usize)> {
    let own = |(path, n): &(&str, usize)| ((*path).to_owned(), *n);
    expected.iter().map(own).collect()
}

#[test]
fn the_demo_shows_its_lanes_in_their_steps() {
    let Some((ranges, armed)) = ranges(&[]) else {
        return;
    };
    let expected =
        [("step", 8_192), ("step/admit", 4_144), ("step/decode", 6_120), ("step/prefill", 2_072)];
    assert_eq!(ranges, counted(&expected));
    assert_eq!(armed, 128, "armed steps can be told apart");
}

/// Ranges of a thread nest: a step that ends inside the next one has a range, and
/// the next one has none.
#[test]
fn ranges_of_overlapping_steps_do_not_cross() {
    let trace = file(&overlapping_steps());
    let Some((ranges, _)) = ranges(&["--stamps", "ideal", "--trace", &trace.path]) else {
        return;
    };
    assert_eq!(ranges, counted(&[("step", 1), ("step/prefill", 1)]));
}
