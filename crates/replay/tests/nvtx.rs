// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program as a profiler sees it: its ranges, by a listener that NVTX loads
//! through the environment.
#![cfg(feature = "nvtx")]

mod common;

use std::collections::BTreeMap;
use std::process::Command;

#[test]
fn the_demo_shows_its_lanes_in_their_steps() {
    common::needs_simulator();
    let Some(listener) = std::env::var_os("METRALE_NVTX_LISTENER") else {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "run `cargo xtask test`"
        );
        println!("skipped: METRALE_NVTX_LISTENER is not set; `cargo xtask test` sets it");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("ranges");
    let output = Command::new(env!("CARGO_BIN_EXE_metrale-replay"))
        .args(["--driver", "sim"])
        .env("NVTX_INJECTION64_PATH", listener)
        .env("METRALE_NVTX_LOG", &log)
        .output()
        .expect("run");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

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
    let ranges: Vec<(&str, usize)> = ranges.iter().map(|(path, n)| (path.as_str(), *n)).collect();
    assert_eq!(
        ranges,
        [
            ("step", 200),
            ("step/admit", 30),
            ("step/decode", 185),
            ("step/prefill", 15)
        ]
    );
    assert_eq!(armed, 3, "armed steps can be told apart");
}
