// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of other kinds than the replay's, on a real server: what is appended to
//! another library's page, and OpenMetrics, each with the same workers.

use super::server::{Prometheus, number};
use super::{promtool_has_no_complaint, wait_for};
use metrale_telemetry::export::{MetraleCollector, text};
use metrale_telemetry::kernel::{LANE_DECODE, SpanKey};
use metrale_telemetry::{Snapshot, Telemetry};
use prometheus::TextEncoder;
use prometheus_client::encoding::{prometheus_text, text as openmetrics};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};

/// A worker's snapshot, with labels and names that need care.
fn worker(rank: u64, labels: &[(&str, &str)]) -> Snapshot {
    let telemetry = Telemetry::new();
    telemetry.expose_kernels(4);
    for launch in 0..100 * (rank + 1) {
        telemetry.step_begin();
        let instruments = telemetry.instruments();
        instruments.record(SpanKey::Lane(LANE_DECODE), 1 << (launch % 64));
        instruments.record(SpanKey::Kernel(64), 5_000);
        telemetry.promote_kernels(|_| Some("gemm<\"a\\n\">\n".into()), str::to_owned);
    }
    let mut snapshot = telemetry.snapshot();
    let labels = [("gpu", "GPU-1")].into_iter().chain(labels.iter().copied());
    snapshot.labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    snapshot.start_unix_ns = Some(1_700_000_000_000_000_000 + rank);
    snapshot
}

/// Two workers; the second twice, and a third under the label of the first.
fn collector() -> MetraleCollector {
    let workers = [
        worker(0, &[("rank", "0"), ("pid", "17")]),
        worker(1, &[("rank", "1"), ("pid", "18")]),
        worker(1, &[("rank", "1"), ("pid", "18")]),
        worker(2, &[("rank", "0"), ("pid", "17")]),
        worker(3, &[("gpu", "")]),
    ];
    let collector = MetraleCollector::from_fn(move || workers.clone());
    collector.label("model", "a \\ \"b\"\n").expect("a label")
}

/// Another library's page, and ours behind it.
fn appended() -> String {
    let requests = prometheus::IntCounter::new("app_requests_total", "Requests answered");
    let requests = requests.expect("a counter");
    requests.inc_by(3);
    let registry = prometheus::Registry::new();
    registry.register(Box::new(requests)).expect("the first");
    let mut page = TextEncoder::new().encode_to_string(&registry.gather()).expect("a page");
    page += &text(&collector());
    page
}

fn open() -> String {
    let requests = Counter::<u64>::default();
    requests.inc_by(3);
    let mut registry = Registry::default();
    registry.register("app_requests", "Requests answered", requests);
    collector().register(&mut registry).expect("the first");
    let mut page = String::new();
    openmetrics::encode(&mut page, &registry).expect("a page");
    page
}

/// Answers every request with a page, until the test ends; the port.
pub(crate) fn serve(
    content_type: &'static str,
    mut page: impl FnMut() -> String + Send + 'static,
) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let _ = stream.read(&mut [0; 4_096]).expect("a request");
            let page = page();
            let length = page.len();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
                 Connection: close\r\n\r\n{page}"
            )
            .expect("read");
        }
    });
    port
}

/// What a server holds of a page, by series without its instance.
fn held(server: &Prometheus, port: u16) -> BTreeMap<String, f64> {
    let all = format!("{{__name__=~\"metrale_.*|app_.*\", instance=\"127.0.0.1:{port}\"}}");
    let result = server.query(&all);
    let of = |series: &serde_json::Value| {
        let mut labels = series["metric"].clone();
        let labels = labels.as_object_mut().expect("labels");
        labels.remove("instance");
        // The two formats spell bounds otherwise, and this server keeps that.
        if let Some(bound) = labels.get_mut("le") {
            *bound = number(bound).to_string().into();
        }
        (serde_json::Value::from(labels.clone()).to_string(), number(&series["value"][1]))
    };
    result.iter().map(of).collect()
}

#[test]
fn appended_text_and_openmetrics_are_read_to_the_last_sample() {
    let (appended, open) = (appended(), open());
    promtool_has_no_complaint(appended.as_bytes());
    let samples = |page: &str| page.lines().filter(|line| !line.starts_with('#')).count();
    let expected = samples(&appended);
    assert_eq!(samples(&open), expected);
    let text_port = serve(prometheus_text::CONTENT_TYPE, move || appended.clone());
    let open_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let open_port = serve(open_type, move || open.clone());
    let server = Prometheus::start(&[text_port, open_port], &[]);
    server.wait_until_it_is_ready();
    let read = wait_for("both pages", || {
        let read = [text_port, open_port].map(|port| held(&server, port));
        read.iter().all(|held| !held.is_empty()).then_some(read)
    });
    assert_eq!(read[0].len(), expected, "samples without a series");
    for (series, value) in &read[0] {
        assert_eq!(read[1].get(series), Some(value), "{series}");
    }
    assert_eq!(read[1].len(), expected);

    let steps = server.values("metrale_steps_total", "rank");
    let of_both = |label: &str, value: f64| [(label.to_owned(), value), (label.to_owned(), value)];
    // 100 and 300 in the first, 200 in the second.
    assert_eq!(steps, [of_both("0", 400.0), of_both("1", 200.0)].concat());
    for (state, count) in
        [("shown", 2.0), ("added", 1.0), ("repeated", 1.0), ("other_version", 0.0), ("no_gpu", 1.0)]
    {
        let query = format!("metrale_export_snapshots{{state=\"{state}\"}}");
        assert_eq!(server.values(&query, "state"), of_both(state, count));
    }
    assert_eq!(server.values("app_requests_total", ""), of_both("", 3.0));
}
