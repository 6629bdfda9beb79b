// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is measured, over HTTP on a loopback port: `/metrics` for Prometheus,
//! `/snapshot.json`, `/healthz`, and timelines for Perfetto.
//!
//! Invariants: a thread of its own, so that no request holds up the replay; no
//! request but a POST changes anything; clients that are silent, however many, hold up
//! nobody: each has some seconds for its request, and the oldest connection
//! makes room for the newest.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metrale_telemetry::Telemetry;
use metrale_telemetry::export::MetraleCollector;
use prometheus_client::encoding::{prometheus_protobuf, prometheus_text, text};
use prometheus_client::registry::Registry;

use crate::timelines::{self, Which};
use crate::{health, tally};

/// A client has so long for the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// Connections at once.
const MAX_CONNECTIONS: usize = 64;
/// What there is.
const INDEX: &str = "\
/metrics        for Prometheus: text, OpenMetrics or protobuf
/snapshot.json  everything that was measured
/timeline.json  the last 4 armed steps, for ui.perfetto.dev
/recording.json the recorded ones; POST ?steps=K records the next K, 0 ends it
/healthz        200 and ok, or 503 and what is wrong
";

/// A port that is taken, on which nothing is served yet.
#[derive(Debug)]
pub struct Server(TcpListener);

/// What a request reads.
struct Served {
    registry: Registry,
    telemetry: Vec<&'static Telemetry>,
    /// How long work may wait for its end.
    stuck_after: Duration,
}

impl Server {
    /// Takes the port; 0 takes a free one.
    ///
    /// # Errors
    /// Where it is in use, or may not be used.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        TcpListener::bind(address).map(Self)
    }

    /// The address with the port that was taken.
    ///
    /// # Errors
    /// Where the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves `telemetry` from now on, until the process ends. `/healthz` is red
    /// while a span that was ended has not landed for `stuck_after`.
    ///
    /// # Errors
    /// Where there can be no thread for it.
    pub fn start(self, telemetry: &[&'static Telemetry], stuck_after: Duration) -> io::Result<()> {
        self.0.set_nonblocking(true)?;
        let mut registry = Registry::default();
        if let Some((first, others)) = telemetry.split_first() {
            let collector = others
                .iter()
                .fold(MetraleCollector::new(first), |all, other| all.and(other));
            collector
                .register(&mut registry)
                .map_err(io::Error::other)?;
        }
        let served = Served {
            registry,
            telemetry: telemetry.to_vec(),
            stuck_after,
        };
        let router = Router::new()
            .route("/", get(INDEX))
            .route("/metrics", get(metrics))
            .route("/snapshot.json", get(snapshot))
            .route("/timeline.json", get(timeline))
            .route("/recording.json", get(recording).post(record))
            .route("/healthz", get(healthz))
            .with_state(Arc::new(served));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        std::thread::Builder::new()
            .name("metrale-http".into())
            .spawn(move || {
                runtime.block_on(async move {
                    let listener = tokio::net::TcpListener::from_std(self.0)?;
                    answer(listener, router).await;
                    io::Result::Ok(())
                })
            })?;
        Ok(())
    }
}

/// Answers for ever.
async fn answer(mut listener: tokio::net::TcpListener, router: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN);
    // The oldest first.
    let mut open: VecDeque<tokio::task::AbortHandle> = VecDeque::new();
    loop {
        // axum's: it goes on after an error.
        let (stream, _) = Listener::accept(&mut listener).await;
        open.retain(|connection| !connection.is_finished());
        if open.len() >= MAX_CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(stream), service);
        open.push_back(tokio::spawn(connection).abort_handle());
    }
}

/// The format of a page of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Classic and native histograms.
    Protobuf,
    OpenMetrics,
    Text,
}

impl Format {
    /// The one that the client wants most; of equals the first.
    fn accepted(accept: &str) -> Self {
        let mut best = (Format::Text, 0.0);
        for media in accept.split(',') {
            let mut parts = media.split(';').map(str::trim);
            let format = match parts.next() {
                Some("application/vnd.google.protobuf")
                    if media.contains("io.prometheus.client.MetricFamily")
                        && media.contains("delimited") =>
                {
                    Format::Protobuf
                }
                Some("application/openmetrics-text") => Format::OpenMetrics,
                Some("text/plain" | "text/*" | "*/*") => Format::Text,
                _ => continue,
            };
            let weight = parts.find_map(|part| part.strip_prefix("q="));
            let weight = weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
            if weight > best.1 {
                best = (format, weight);
            }
        }
        best.0
    }

    fn content_type(self) -> &'static str {
        match self {
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => prometheus_text::CONTENT_TYPE,
        }
    }

    fn page(self, registry: &Registry) -> Option<Vec<u8>> {
        let mut page = String::new();
        match self {
            Format::Protobuf => return prometheus_protobuf::encode_to_vec(registry).ok(),
            Format::OpenMetrics => text::encode(&mut page, registry).ok()?,
            Format::Text => prometheus_text::encode(&mut page, registry).ok()?,
        }
        Some(page.into_bytes())
    }
}

async fn metrics(State(served): State<Arc<Served>>, headers: HeaderMap) -> Response {
    let accept = headers.get_all(ACCEPT).iter();
    let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
    let format = Format::accepted(&accept.join(","));
    match format.page(&served.registry) {
        Some(page) => ([(CONTENT_TYPE, format.content_type())], page).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn snapshot(State(served): State<Arc<Served>>) -> Response {
    match serde_json::to_vec(&tally::snapshot(&served.telemetry)) {
        Ok(json) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn timeline(State(served): State<Arc<Served>>) -> Response {
    trace(&served, Which::Last)
}

/// 404 where nobody asked for a recording.
async fn recording(State(served): State<Arc<Served>>) -> Response {
    trace(&served, Which::Recorded)
}

fn trace(served: &Served, which: Which) -> Response {
    let mut json = Vec::new();
    match timelines::write(&mut json, &served.telemetry, which) {
        Ok(true) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        Ok(false) => StatusCode::NOT_FOUND.into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn record(State(served): State<Arc<Served>>, RawQuery(query): RawQuery) -> Response {
    let steps = query
        .as_deref()
        .and_then(|query| query.strip_prefix("steps="));
    let Some(steps) = steps.and_then(|steps| steps.parse().ok()) else {
        let needed = "?steps=K is needed: how many armed steps to record\n";
        return (StatusCode::BAD_REQUEST, needed).into_response();
    };
    match timelines::record(&served.telemetry, steps) {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

/// Well, or what is wrong, a line each.
async fn healthz(State(served): State<Arc<Served>>) -> (StatusCode, String) {
    let recorders = tally::snapshot(&served.telemetry).recorders;
    let troubles = health::troubles(&recorders, served.stuck_after);
    if troubles.is_empty() {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, troubles.join("\n") + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn the_format_is_the_one_that_the_client_wants_most() {
        let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        let open = "application/openmetrics-text;version=1.0.0";
        for (accept, expected) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/html", Format::Text),
            (
                &format!("{open},text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
                Format::OpenMetrics,
            ),
            (
                &format!("{protobuf},{open};q=0.8,*/*;q=0.2"),
                Format::Protobuf,
            ),
            (
                &format!("{protobuf};q=0.3, {open}; q=0.2, text/plain;q=0.9"),
                Format::Text,
            ),
            (
                "application/vnd.google.protobuf;encoding=text",
                Format::Text,
            ),
            (&format!("{open};q=x,text/plain;q=0"), Format::Text),
            (&format!("{open};q=NaN,;;,,q=1"), Format::Text),
        ] {
            assert_eq!(Format::accepted(accept), expected, "{accept}");
        }
    }
}
