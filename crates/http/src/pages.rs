// SPDX-License-Identifier: MIT OR Apache-2.0
//! The router. What an answer takes is done on a thread that may block, so that
//! no other request of the server waits for it.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrale_telemetry::Telemetry;
use metrale_telemetry::export::{MetraleCollector, RegisterError, TOP_KERNELS};
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::sync::Semaphore;
use tower::ServiceBuilder;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower_http::compression::CompressionLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::TimeoutLayer;

use crate::cached::Cached;
use crate::metrics::Format;
use crate::reading::Reading;
use crate::steps::{StepsJson, TimelineJson};
use crate::{health, page, traces};

/// Requests that are answered at once; more wait for their turn.
pub const MAX_REQUESTS: usize = 64;
/// How long a request may take, and wait for its turn: 503 then.
pub const WITHIN: Duration = Duration::from_secs(10);
/// How long work may wait for its end where nobody says otherwise.
pub const STUCK_AFTER: Duration = Duration::from_secs(30);
/// Bytes of a request's body: none of ours has one.
const MAX_BODY: usize = 1 << 10;

/// The header that says when a snapshot was taken, in nanoseconds of the
/// telemetry's clock.
const CLOCK: &str = "metrale-clock-ns";

/// What is served, and how. See the [crate] for what there is.
#[derive(Clone, Debug)]
pub struct Pages {
    telemetry: Vec<&'static Telemetry>,
    stuck_after: Duration,
}

/// What a request reads.
pub(crate) struct Served {
    pub(crate) telemetry: Arc<[&'static Telemetry]>,
    stuck_after: Duration,
    reading: Arc<Cached<Reading>>,
    steps: Cached<Vec<StepsJson>>,
    timelines: Cached<Vec<TimelineJson>>,
    registry: Result<Registry, RegisterError>,
    /// One is taken while a trace is sent.
    pub(crate) traces: Arc<Semaphore>,
}

type Answer = fn(&Served, &HeaderMap) -> Response;

impl Pages {
    /// Pages of these telemetries, one of each GPU of the process.
    #[must_use]
    pub fn new(telemetry: impl IntoIterator<Item = &'static Telemetry>) -> Self {
        Self { telemetry: telemetry.into_iter().collect(), stuck_after: STUCK_AFTER }
    }

    /// `/healthz` is red while a span that was ended has not landed for so long.
    #[must_use]
    pub fn stuck_after(self, stuck_after: Duration) -> Self {
        Self { stuck_after, ..self }
    }

    /// The router, to be served as it is or nested in another one. It needs a
    /// tokio runtime with time. The [`TOP_KERNELS`] longest kernels get series.
    pub fn router(self) -> Router {
        let answers: [(&str, Answer); 5] = [
            ("/metrics", Served::metrics),
            ("/snapshot.json", |served, _| served.snapshot()),
            ("/steps.json", |served, _| json(&*served.steps())),
            ("/timeline.json", |served, _| json(&*served.timelines())),
            ("/healthz", |served, _| served.healthz()),
        ];
        let mut router = Router::new()
            .route("/", get(the_page))
            .route("/trace.json", get(traces::last))
            .route("/recording.json", get(traces::recorded).post(traces::record));
        for (path, answer) in answers {
            let handler = move |State(served): State<Arc<Served>>, headers| async move {
                let work = move || answer(&served, &headers);
                let done = tokio::task::spawn_blocking(work).await;
                done.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
            };
            router = router.route(path, get(handler));
        }
        // The first is the outermost.
        let limits = ServiceBuilder::new()
            .layer(CompressionLayer::new())
            .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, WITHIN))
            .layer(GlobalConcurrencyLimitLayer::new(MAX_REQUESTS))
            .layer(RequestBodyLimitLayer::new(MAX_BODY));
        let served = Served::new(self.telemetry.into(), self.stuck_after);
        router.layer(limits).with_state(Arc::new(served))
    }
}

impl Served {
    fn new(telemetry: Arc<[&'static Telemetry]>, stuck_after: Duration) -> Self {
        let reading = Arc::new(Cached::new());
        for of in telemetry.iter() {
            of.expose_kernels(TOP_KERNELS);
        }
        let (of, kept) = (Arc::clone(&telemetry), Arc::clone(&reading));
        let gather = move || kept.get(|| Reading::take(&of)).each.clone();
        let mut registry = Registry::default();
        let registered = MetraleCollector::from_fn(gather).register(&mut registry);
        Self {
            telemetry,
            stuck_after,
            reading,
            steps: Cached::new(),
            timelines: Cached::new(),
            registry: registered.map(|()| registry),
            traces: Arc::new(Semaphore::new(traces::MAX_TRACES)),
        }
    }

    fn reading(&self) -> Arc<Reading> {
        self.reading.get(|| Reading::take(&self.telemetry))
    }

    fn snapshot(&self) -> Response {
        let reading = self.reading();
        let clock = [(CLOCK, reading.clock_ns.to_string())];
        (clock, json(&reading.merged)).into_response()
    }

    fn steps(&self) -> Arc<Vec<StepsJson>> {
        let reading = self.reading();
        let each = || self.telemetry.iter().zip(&reading.each);
        self.steps.get(|| each().map(|(of, snapshot)| StepsJson::take(of, snapshot)).collect())
    }

    fn timelines(&self) -> Arc<Vec<TimelineJson>> {
        let reading = self.reading();
        let each = || self.telemetry.iter().zip(&reading.each);
        self.timelines
            .get(|| each().map(|(of, snapshot)| TimelineJson::take(of, snapshot)).collect())
    }

    fn metrics(&self, headers: &HeaderMap) -> Response {
        let accept = headers.get_all(ACCEPT).iter();
        let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
        let format = Format::accepted(&accept.join(","));
        let page = self.registry.as_ref().ok().and_then(|registry| format.page(registry));
        match page {
            Some(page) => fresh(format.content_type(), page),
            None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }

    /// Well, or what is wrong, a line each.
    fn healthz(&self) -> Response {
        let reading = self.reading();
        let troubles = health::troubles(&reading.merged.recorders, self.stuck_after);
        let (status, text) = if troubles.is_empty() {
            (StatusCode::OK, "ok\n".to_owned())
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, troubles.join("\n") + "\n")
        };
        (status, fresh("text/plain; charset=utf-8", text)).into_response()
    }
}

/// An answer that nobody keeps.
pub(crate) fn fresh(content_type: &'static str, body: impl IntoResponse) -> Response {
    let headers = [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, body).into_response()
}

fn json(of: &impl Serialize) -> Response {
    match serde_json::to_vec(of) {
        Ok(json) => fresh("application/json", json),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn the_page() -> Response {
    let policy = [(CONTENT_SECURITY_POLICY, page::POLICY)];
    (policy, fresh("text/html; charset=utf-8", page::PAGE)).into_response()
}
