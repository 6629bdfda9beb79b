// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is measured, over HTTP: a live page at `/`, and what a program reads.
//!
//! | path | what it is |
//! |---|---|
//! | `/` | a page for people, in one file: it asks nobody else for anything |
//! | `/snapshot.json` | a [`Snapshot`](metrale_telemetry::Snapshot), of several telemetries merged |
//! | `/steps.json` | the last [`STEPS`] steps of each telemetry |
//! | `/timeline.json` | the last armed step of each that could be laid out in time |
//! | `/trace.json` | the last armed steps as a trace for Perfetto |
//! | `/recording.json` | the recorded ones, once `POST /recording.json?steps=K` asked for the next K; 0 ends it |
//! | `/metrics` | for Prometheus: text or OpenMetrics, with feature `protobuf` native histograms too |
//! | `/healthz` | 200 and `ok`, or 503 and what is wrong, a line each |
//!
//! [`Pages`] makes a router of them for a server that has axum; [`Server`] is
//! for a process without one.
//!
//! ```no_run
//! use metrale_http::Pages;
//! use metrale_telemetry::global;
//!
//! # fn app() -> axum::Router { axum::Router::new() }
//! // The page is at /gpu; whoever reaches the server reaches it.
//! let app = app().nest("/gpu", Pages::new([global()]).router());
//! # drop::<axum::Router>(app);
//! ```
//!
//! Invariants: no request but that POST changes what another one sees; however
//! many ask, each telemetry is read once a second at most, but by the few
//! that are sent a trace at once; what is sent is bounded; requests have no bodies, and wait for a limited time.
#![deny(missing_docs)]
// It runs in somebody else's process: it neither prints nor panics.
#![cfg_attr(
    not(test),
    deny(
        clippy::print_stdout,
        clippy::print_stderr,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::disallowed_macros
    )
)]
#![forbid(unsafe_code)]

mod cached;
mod health;
mod metrics;
mod page;
mod pages;
mod reading;
mod server;
mod steps;
mod traces;

pub use pages::{MAX_REQUESTS, Pages, STUCK_AFTER, WITHIN};
pub use reading::merged;
pub use server::{MAX_CONNECTIONS, Server};
pub use steps::STEPS;
pub use traces::{MAX_TRACES, Traces};

/// The example of `docs/page.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/page.md")]
struct Document;
