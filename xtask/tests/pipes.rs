// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tasks in a pipe that nobody reads any more.

use std::process::{Command, Stdio};

#[test]
fn a_closed_pipe_is_no_panic() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("--help").stdout(writer).stderr(Stdio::piped());
    let output = command.output().expect("the binary runs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
