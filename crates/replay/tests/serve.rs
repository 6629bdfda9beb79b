// SPDX-License-Identifier: MIT OR Apache-2.0
//! The replay as a server: what it answers, when it ends, and what it refuses.

mod common;
#[path = "prometheus/http.rs"]
mod http;

use metrale_replay::workload;
use metrale_telemetry::Snapshot;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

fn command(address: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metrale-replay"));
    command.args(["--driver", "sim", "--serve", address]);
    command
}

/// A replay that serves, its port, and what else it says.
fn serve(seconds: &str) -> (Child, u16, BufReader<ChildStdout>) {
    let mut command = command("127.0.0.1:0");
    command.args(["--for", seconds]);
    start(command)
}

fn start(mut command: Command) -> (Child, u16, BufReader<ChildStdout>) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.starts_with("serving ") {
        line.clear();
        assert_ne!(
            out.read_line(&mut line).expect("text"),
            0,
            "it does not serve"
        );
    }
    let port = line.split([':', '/']).nth(4).and_then(|it| it.parse().ok());
    (
        child,
        port.unwrap_or_else(|| panic!("no port in {line}")),
        out,
    )
}

fn content_type(port: u16, accept: &str) -> String {
    let head = http::head(port, "/metrics", accept);
    let mut lines = head.lines();
    let line = lines.find_map(|line| line.strip_prefix("content-type: "));
    line.expect("a content type").to_owned()
}

#[test]
fn it_answers_while_it_repeats_and_ends_in_time() {
    common::needs_simulator();
    let (mut child, port, mut out) = serve("3");
    let steps = || {
        let json = http::get(port, "/snapshot.json", "*/*");
        let snapshot: Snapshot = serde_json::from_slice(&json).expect("a snapshot");
        snapshot.steps
    };
    let before = steps();
    assert!(
        before >= workload::STEPS as u64,
        "the replay came first: {before}"
    );
    assert_eq!(http::get(port, "/healthz", "*/*"), b"ok\n");
    assert_eq!(
        content_type(port, "*/*"),
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let open = "application/openmetrics-text;version=1.0.0";
    assert_eq!(
        content_type(port, open),
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    assert!(content_type(port, protobuf).starts_with("application/vnd.google.protobuf; proto="));
    assert!(http::try_get(port, "/nothing", "*/*").is_none());
    let page = String::from_utf8(http::get(port, "/", "text/html")).expect("text");
    assert!(page.starts_with("<!doctype html>"));
    let page = http::get(port, "/metrics", open);
    assert!(page.ends_with(b"# EOF\n"));
    while steps() == before {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "");
    assert!(child.wait().expect("ended").success());
}

/// More clients than the process has descriptors for, none of which says
/// anything; one that begins a request and does not end it.
#[test]
fn silent_clients_hold_up_nobody() {
    common::needs_simulator();
    let mut shell = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_metrale-replay");
    shell.args(["-c", "ulimit -n 128 && exec \"$@\"", "sh", program]);
    shell.args(["--driver", "sim", "--serve", "127.0.0.1:0", "--for", "60"]);
    let (mut child, port, _out) = start(shell);
    let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connected");
    let silent: Vec<TcpStream> = (0..300).map(|_| connect()).collect();
    let page = http::get(port, "/metrics", "*/*");
    assert!(!page.is_empty());
    drop(silent);

    // The server hangs up on it.
    let mut slow = connect();
    slow.set_read_timeout(Some(Duration::from_secs(50)))
        .expect("set");
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHost:")
        .expect("written");
    slow.read_to_end(&mut Vec::new()).expect("an end");
    child.kill().expect("it still serves");
    child.wait().expect("ended");
}

/// A kernel of a minute, in a lane: both are told, with their stream. The step
/// after it keeps the replay from waiting for it in virtual time.
#[test]
fn work_that_does_not_end_makes_it_unwell() {
    common::needs_simulator();
    const TRACE: &str = r#"{"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "user_annotation", "name": "step[DECODE bs=9]", "pid": 1, "tid": 1, "ts": 1000.0, "dur": 100.0},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 1010.0, "dur": 5.0, "args": {"cbid": 211, "correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "endless", "pid": 0, "tid": 7, "ts": 1020.0, "dur": 60000000.0, "args": {"device": 0, "context": 1, "stream": 7, "correlation": 1}},
        {"ph": "X", "cat": "user_annotation", "name": "step[DECODE bs=9]", "pid": 1, "tid": 1, "ts": 60002000.0, "dur": 100.0},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 60002010.0, "dur": 5.0, "args": {"cbid": 211, "correlation": 2}},
        {"ph": "X", "cat": "kernel", "name": "last", "pid": 0, "tid": 7, "ts": 60002020.0, "dur": 10.0, "args": {"device": 0, "context": 1, "stream": 7, "correlation": 2}}
    ]}"#;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("endless.json");
    std::fs::write(&path, TRACE).expect("written");
    let mut command = command("127.0.0.1:0");
    command.args(["--for", "30", "--every", "1", "--stuck-after", "1"]);
    command.arg("--trace").arg(path);
    let (mut child, port, _out) = start(command);
    // It goes on answering until it is unwell, or ends and answers no more.
    let (head, body) = loop {
        let (head, body) = http::answer(port, "/healthz", "*/*").expect("an answer");
        let body = String::from_utf8(body).expect("text");
        // The kernel is seen to wait before its lane is.
        if body.lines().count() == 2 {
            break (head, body);
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    assert!(head.contains(" 503 "), "{head}");
    for (line, start) in body.lines().zip([
        "lanes: \"decode\" on stream 0x",
        "kernels: \"endless\" on stream 0x",
    ]) {
        assert!(
            line.starts_with(start) && line.contains(" of GPU-"),
            "{body}"
        );
    }
    assert_eq!(body.lines().count(), 2, "{body}");
    child.kill().expect("it still serves");
    child.wait().expect("ended");
}

fn refused(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert_eq!(
        (output.stdout.as_slice(), error.lines().count()),
        (&b""[..], 1),
        "{error}"
    );
    error
}

#[test]
fn what_cannot_be_served_is_one_line() {
    let output = command("0.0.0.0:0").output().expect("run");
    assert!(refused(&output).contains("a loopback address is needed"));
    let output = command("127.0.0.1:0").args(["--for", "0"]).output();
    assert!(refused(&output.expect("run")).contains("--for"));
    common::needs_simulator();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = command(&address).output().expect("run");
    assert!(refused(&output).contains("in use"));
}
