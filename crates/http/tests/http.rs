// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages as a client of HTTP/1.1 sees them.

use flate2::read::GzDecoder;
use metrale_http::{MAX_REQUESTS, Pages, Server};
use metrale_telemetry::kernel::{LANE_DECODE, SpanKey, StepShape};
use metrale_telemetry::runtime::{KernelName, RecorderSource};
use metrale_telemetry::snapshot::RecorderSnapshot;
use metrale_telemetry::{Snapshot, Telemetry};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Pages of a telemetry with a step.
fn pages() -> Pages {
    let telemetry = Telemetry::new().leak();
    let step = telemetry.step_begin();
    telemetry.shape(step, StepShape::new().decode_tokens(9));
    let decode = SpanKey::Lane(LANE_DECODE);
    telemetry.instruments().record(decode, 8_000_000);
    Pages::new([telemetry])
}

fn serve(router: axum::Router) -> SocketAddr {
    let server = Server::bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let address = server.address().expect("an address");
    server.start(router).expect("a thread");
    address
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("text")
    }
}

/// The answer to a request of these lines.
fn ask(address: SocketAddr, lines: &[&str]) -> Answer {
    let mut stream = TcpStream::connect(address).expect("connected");
    let wait = Some(Duration::from_secs(30));
    stream.set_read_timeout(wait).expect("set");
    let lines = lines.join("\r\n");
    write!(stream, "{lines}\r\nHost: here\r\nConnection: close\r\n\r\n").expect("written");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let body = answer.split_off(end.expect("a head") + 4);
    let head = String::from_utf8(answer).expect("text");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Answer { status: status.expect("a status"), head, body }
}

fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, &[&format!("GET {path} HTTP/1.1")])
}

const PATHS: [(&str, &str); 7] = [
    ("/", "text/html; charset=utf-8"),
    ("/snapshot.json", "application/json"),
    ("/steps.json", "application/json"),
    ("/timeline.json", "application/json"),
    ("/trace.json", "application/json"),
    ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
    ("/healthz", "text/plain; charset=utf-8"),
];

#[test]
fn every_page_is_there_and_a_head_is_that_of_its_page() {
    let address = serve(pages().router());
    for (path, kind) in PATHS {
        let page = get(address, path);
        assert_eq!((page.status, page.header("content-type")), (200, Some(kind)), "{path}");
        assert_eq!(page.header("cache-control"), Some("no-store"), "{path}");
        assert!(!page.body.is_empty(), "{path}");
        let head = ask(address, &[&format!("HEAD {path} HTTP/1.1")]);
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        for name in ["content-type", "content-length", "vary"] {
            assert_eq!(head.header(name), page.header(name), "{path}: {name}");
        }
    }
    let snapshot: Snapshot =
        serde_json::from_slice(&get(address, "/snapshot.json").body).expect("one");
    assert_eq!((snapshot.steps, snapshot.lanes[LANE_DECODE].gpu.count()), (1, 1));
    assert_eq!(get(address, "/healthz").text(), "ok\n");
    let open = "application/openmetrics-text;version=1.0.0";
    let metrics = ask(address, &["GET /metrics HTTP/1.1", &format!("Accept: {open}")]);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(metrics.header("content-type"), Some(kind));
    assert!(metrics.text().ends_with("# EOF\n"));
}

#[test]
fn what_is_not_there_or_not_asked_for_so_is_refused() {
    let address = serve(pages().router());
    let nothing = get(address, "/nothing");
    assert_eq!((nothing.status, nothing.body.len()), (404, 0));
    assert_eq!(ask(address, &["HEAD /nothing HTTP/1.1"]).status, 404);
    for (path, _) in PATHS {
        let post = ask(address, &[&format!("POST {path} HTTP/1.1"), "Content-Length: 0"]);
        assert_eq!((post.status, post.header("allow")), (405, Some("GET,HEAD")), "{path}");
        let large = [&format!("POST {path} HTTP/1.1"), "Content-Length: 1025"];
        assert_eq!(ask(address, &large).status, 413, "{path}");
    }
}

#[test]
fn a_recording_is_there_once_it_was_asked_for() {
    let address = serve(pages().router());
    let post = |query: &str, header: &str| {
        let request = format!("POST /recording.json{query} HTTP/1.1");
        ask(address, &[&request, "Content-Length: 0", header])
    };
    assert_eq!(get(address, "/recording.json").status, 404);
    for wrong in ["", "?steps=", "?steps=-1", "?steps=65", "?k=1"] {
        let refused = post(wrong, "Sec-Fetch-Site: same-origin");
        assert_eq!(refused.status, 400, "{wrong}");
        assert!(refused.text().contains("steps"), "{wrong}");
    }
    let elsewhere = post("?steps=1", "Sec-Fetch-Site: cross-site");
    assert_eq!(elsewhere.status, 403);
    assert_eq!(get(address, "/recording.json").status, 404);
    assert_eq!(post("?steps=1", "Sec-Fetch-Site: none").status, 202);
    assert!(get(address, "/recording.json").text().contains("traceEvents"));
    assert_eq!(post("?steps=0", "Sec-Fetch-Site: none").status, 202);
    assert_eq!(get(address, "/recording.json").status, 404);
}

#[test]
fn who_takes_gzip_gets_it() {
    let address = serve(pages().router());
    let plain = get(address, "/");
    assert_eq!(plain.header("content-encoding"), None);
    let packed = ask(address, &["GET / HTTP/1.1", "Accept-Encoding: gzip"]);
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert!(packed.body.len() < plain.body.len() / 2);
    // It comes in pieces, of which the first is nearly all.
    let begin = packed.body.windows(2).position(|two| two == b"\x1f\x8b");
    let mut start = [0; 15];
    let mut unpacked = GzDecoder::new(&packed.body[begin.expect("gzip")..]);
    unpacked.read_exact(&mut start).expect("unpacked");
    assert_eq!(start, plain.body[..15]);
}

#[test]
fn it_is_mounted_under_a_path() {
    let app = axum::Router::new().nest("/gpu", pages().router());
    let address = serve(app);
    for path in ["/gpu", "/gpu/snapshot.json", "/gpu/healthz"] {
        assert_eq!(get(address, path).status, 200, "{path}");
    }
    assert_eq!(get(address, "/").status, 404);
}

#[test]
fn others_reach_it_only_where_that_was_asked_for() {
    let refused = Server::bind(([0, 0, 0, 0], 0).into()).expect_err("not loopback");
    assert!(refused.to_string().contains("bind_to_all"), "{refused}");
    Server::bind_to_all(([0, 0, 0, 0], 0).into()).expect("a port");
}

/// Counts how often it is read, and does not answer while somebody holds it.
#[derive(Default)]
struct Recorder {
    held: Mutex<()>,
    reads: AtomicU64,
}

impl RecorderSource for Recorder {
    fn recorder(&self) -> RecorderSnapshot {
        self.reads.fetch_add(1, Ordering::Relaxed);
        drop(self.held.lock());
        RecorderSnapshot::default()
    }

    fn name(&self, _: u64) -> Option<KernelName> {
        None
    }
}

/// Pages of a telemetry with a recorder.
fn of_a_recorder() -> (Arc<Recorder>, Pages) {
    let recorder = Arc::new(Recorder::default());
    let source: Arc<dyn RecorderSource> = recorder.clone();
    let telemetry: &'static Telemetry = Telemetry::new().leak();
    telemetry.attach(Arc::downgrade(&source)).expect("the first");
    (recorder, Pages::new([telemetry]))
}

/// By a server that has no cap on connections of its own.
fn serve_by_axum(router: axum::Router) -> SocketAddr {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.set_nonblocking(true).expect("set");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("taken");
            axum::serve(listener, router).await
        })
    });
    address
}

#[test]
fn one_request_too_many_waits_for_its_turn() {
    let (recorder, pages) = of_a_recorder();
    let address = serve_by_axum(pages.router());
    let send = |path: &str| {
        let mut stream = TcpStream::connect(address).expect("connected");
        let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("written");
        stream
    };
    // Whether a page that reads nothing is answered within that time.
    let is_answered = |within_ms| {
        let mut page = send("/");
        page.set_read_timeout(Some(Duration::from_millis(within_ms))).expect("set");
        page.read_exact(&mut [0]).is_ok()
    };

    let held = recorder.held.lock().expect("free");
    let mut waiting: Vec<_> = (1..MAX_REQUESTS).map(|_| send("/snapshot.json")).collect();
    assert!(is_answered(5_000));
    waiting.push(send("/snapshot.json"));
    // It may be answered for as long as the last one is on its way.
    assert!((0..10).any(|_| !is_answered(500)));
    drop(held);
    for mut stream in waiting {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    assert!(is_answered(5_000));
}

#[test]
fn readers_wait_for_ten_seconds_hold_up_nobody_and_share_a_snapshot() {
    let (recorder, pages) = of_a_recorder();
    let address = serve(pages.router());

    let held = recorder.held.lock().expect("free");
    let began = Instant::now();
    let waiting: Vec<_> = ["/snapshot.json", "/metrics", "/steps.json", "/healthz"]
        .map(|path| std::thread::spawn(move || (get(address, path).status, began.elapsed())))
        .into();
    while recorder.reads.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(get(address, "/").status, 200);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    for answer in waiting {
        let (status, after) = answer.join().expect("an answer");
        assert_eq!(status, 503);
        assert!((9..15).contains(&after.as_secs()), "{after:?}");
    }
    drop(held);

    let (began, before) = (Instant::now(), recorder.reads.load(Ordering::Relaxed));
    for _ in 0..10 {
        for (path, _) in PATHS {
            assert_eq!(get(address, path).status, 200, "{path}");
        }
    }
    let reads = recorder.reads.load(Ordering::Relaxed) - before;
    assert!(reads <= began.elapsed().as_secs() + 1, "{reads} in {:?}", began.elapsed());
}
