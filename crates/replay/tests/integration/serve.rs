// SPDX-License-Identifier: MIT OR Apache-2.0
//! The replay as a server: what it answers, when it ends, and what it refuses.

use crate::common::http;
use crate::common::program::Serving;
use crate::common::record::{DECODE, file, kernel, launch, step};
use metrale_replay::workload;
use metrale_telemetry::Snapshot;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

fn steps(port: u16) -> u64 {
    http::json::<Snapshot>(port, "/snapshot.json").steps
}

/// What each page is, by whatever server, is held in the crate of the pages.
#[test]
fn it_answers_while_it_repeats_and_ends_in_time() {
    let mut serving = Serving::start(["--for", "3"]);
    let port = serving.port;
    let before = steps(port);
    assert!(before >= workload::STEPS as u64, "the replay came first: {before}");
    assert_eq!(http::get(port, "/healthz", "*/*"), b"ok\n");
    let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    let (head, _) = http::answer(port, "/metrics", protobuf).expect("an answer");
    assert!(head.contains("content-type: application/vnd.google.protobuf; proto="), "{head}");
    let events = |page: &str| {
        let json: Value = http::json(port, page);
        json["traceEvents"].as_array().expect("events").len()
    };
    assert!(events("/trace.json") > 4);
    assert_eq!(http::post(port, "/recording.json?steps=1"), "202");
    events("/recording.json");
    while steps(port) == before {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut rest = String::new();
    serving.out.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "");
    assert!(serving.child.wait().expect("ended").success());
}

/// More clients than the process has descriptors for, none of which says
/// anything; one that begins a request and does not end it.
#[test]
fn silent_clients_hold_up_nobody() {
    let mut shell = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_metrale-replay");
    shell.args(["-c", "ulimit -n 128 && exec \"$@\"", "sh", program, "--for", "60"]);
    let mut serving = Serving::of(shell, 0);
    let port = serving.port;
    let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connected");
    let silent: Vec<TcpStream> = (0..300).map(|_| connect()).collect();
    let page = http::get(port, "/metrics", "*/*");
    assert!(!page.is_empty());
    drop(silent);

    // The server hangs up on it.
    let mut slow = connect();
    slow.set_read_timeout(Some(Duration::from_secs(50))).expect("set");
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHost:").expect("written");
    slow.read_to_end(&mut Vec::new()).expect("an end");
    assert!(serving.child.try_wait().expect("asked").is_none(), "it still serves");
}

/// Steps of many kernels: 64 of them are more than what lies between a server and a
/// client that does not read.
fn many_kernels() -> Vec<String> {
    const KERNELS: u32 = 700;
    let mut events = Vec::new();
    for number in 0..80 {
        let at = 1_000 + number * 4_000;
        events.push(step(DECODE, at, 3_900));
        for kernel_of_step in 0..KERNELS {
            let correlation = number * KERNELS + kernel_of_step + 1;
            events.push(launch(correlation, at + 10 + kernel_of_step));
            events.push(kernel("gemm", 7, correlation, at + 20 + 4 * kernel_of_step, 3));
        }
    }
    events
}

/// As many clients as traces are sent at once, none of which reads: others are told so
/// at once, and the rest of the server answers. After ten seconds their turns are free.
/// What they find then is not the whole answer, and does not look like one.
#[test]
fn clients_that_take_no_trace_lose_their_turn() {
    let trace = file(&many_kernels());
    let mut serving = Serving::start(["--for", "120", "--every", "1", "--trace", &trace.path]);
    let port = serving.port;
    assert_eq!(http::post(port, "/recording.json?steps=64"), "202");
    let whole = loop {
        let whole = String::from_utf8(http::get(port, "/recording.json", "*/*")).expect("text");
        if whole.matches("ProfilerStep#").count() >= 64 {
            break whole;
        }
    };
    assert!(serde_json::from_str::<Value>(&whole).is_ok());
    assert!(whole.len() > 8 << 20, "{} bytes may fit the buffers", whole.len());

    let stalled: Vec<TcpStream> = (0..metrale_http::MAX_TRACES)
        .map(|_| {
            let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connected");
            client.write_all(b"GET /recording.json HTTP/1.1\r\nHost: here\r\n\r\n").expect("sent");
            let mut status = [0; 12];
            client.read_exact(&mut status).expect("an answer");
            assert_eq!(&status, b"HTTP/1.1 200");
            client
        })
        .collect();
    let began = Instant::now();
    let (head, body) = http::answer(port, "/trace.json", "*/*").expect("an answer");
    assert!(head.contains(" 503 "), "{head}");
    assert!(String::from_utf8_lossy(&body).contains("4 traces are being sent"), "{body:?}");
    assert_eq!(http::get(port, "/healthz", "*/*"), b"ok\n");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());

    while http::try_get(port, "/recording.json", "*/*").is_none() {
        std::thread::sleep(Duration::from_millis(100));
        assert!(began.elapsed() < Duration::from_secs(20), "their turns are not free");
    }
    assert!(began.elapsed() > Duration::from_secs(8), "{:?}", began.elapsed());
    for mut client in stalled {
        client.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        let mut rest = Vec::new();
        // The end of the connection, or an error: no end of the answer.
        let _ = client.read_to_end(&mut rest);
        assert!(!rest.ends_with(b"\r\n0\r\n\r\n"), "{} bytes as if they were all", rest.len());
        assert!(rest.len() < whole.len());
    }
    assert!(serving.child.try_wait().expect("asked").is_none(), "it still serves");
}

/// A kernel of a minute, in a lane: both are told, with their stream. The step
/// after it keeps the replay from waiting for it in virtual time.
#[test]
fn work_that_does_not_end_makes_it_unwell() {
    let events = [
        step(DECODE, 1_000, 100),
        launch(1, 1_010),
        kernel("endless", 7, 1, 1_020, 60_000_000),
        step(DECODE, 60_002_000, 100),
        launch(2, 60_002_010),
        kernel("last", 7, 2, 60_002_020, 10),
    ];
    let trace = &file(&events).path;
    let arguments = ["--for", "30", "--every", "1", "--stuck-after", "1", "--trace", trace];
    let mut serving = Serving::start(arguments);
    let port = serving.port;
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
    for (line, start) in
        body.lines().zip(["lanes: \"decode\" on stream 0x", "kernels: \"endless\" on stream 0x"])
    {
        assert!(line.starts_with(start) && line.contains(" of GPU-"), "{body}");
    }
    assert_eq!(body.lines().count(), 2, "{body}");
    assert!(serving.child.try_wait().expect("asked").is_none(), "it still serves");
}

/// A timeline's lane spans add up to what the record of its step says.
#[test]
fn the_last_steps_and_the_last_timeline_agree() {
    let mut serving = Serving::start(["--for", "60"]);
    let get = |path| -> Value { http::json(serving.port, path) };
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let ns = |value: &Value| value.as_u64().expect("nanoseconds");
    let deadline = Instant::now() + Duration::from_secs(50);
    let (steps, timeline, step) = loop {
        let (steps, timeline) = (get("/steps.json")[0].clone(), get("/timeline.json")[0].clone());
        let mut all = list(&steps["steps"]).into_iter();
        // Each is taken once a second: the step may be in one and not in the other.
        if let Some(step) = all.find(|step| step["number"] == timeline["step"]) {
            break (steps, timeline, step);
        }
        assert!(Instant::now() < deadline, "no record of {}", timeline["step"]);
    };
    assert_eq!(step["armed"], true);
    let mut numbers = list(&steps["steps"]).into_iter().map(|step| ns(&step["number"]));
    assert_eq!(list(&steps["steps"]).len(), metrale_http::STEPS);
    let first = numbers.next().expect("a step");
    assert!(numbers.eq(first + 1..first + metrale_http::STEPS as u64));
    let lanes = list(&timeline["lanes"]);
    assert_eq!(lanes, list(&steps["lanes"]));
    for (lane, recorded) in list(&step["gpu_ns"]).iter().enumerate() {
        let spans = list(&timeline["lane_spans"]);
        let own = spans.iter().filter(|span| span["lane"] == lane);
        let laid_out: u64 = own.map(|span| ns(&span["ns"])).sum();
        assert_eq!(recorded.as_u64().unwrap_or(0), laid_out, "{}", lanes[lane]);
    }
    let rows = list(&timeline["rows"]);
    assert!(!list(&timeline["launches"]).is_empty());
    for launch in list(&timeline["launches"]) {
        let row = launch["row"].as_u64().expect("a row") as usize;
        assert!(rows[row]["name"].is_string(), "{launch}");
    }
    assert!(serving.child.try_wait().expect("asked").is_none(), "it still serves");
}

#[test]
fn a_port_that_is_taken_is_one_line() {
    crate::common::needs_simulator();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_metrale-replay"));
    let output = command.args(["--driver", "sim", "--serve", &address]).output().expect("run");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert_eq!((output.stdout.as_slice(), error.lines().count()), (&b""[..], 1), "{error}");
    assert!(error.contains("in use"), "{error}");
}
