// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two replays, scraped by real Prometheus servers: one that knows classic
//! histograms only, one with native ones; and pages of other kinds (`pages`).
//!
//! The replays serve for some seconds and then stand still for long, so that what
//! a server holds can be compared with what was measured, to the last digit.
//! Where Prometheus is not installed the tests fail.

mod dashboard;
mod load;
mod pages;
mod quantiles;
mod series;
mod server;
mod twins;

use crate::common::http;
use load::Replay;
use metrale_telemetry::Snapshot;
use server::Prometheus;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a server may take for what it does at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again and again until there is an answer.
fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(std::time::Instant::now() < deadline, "{what} never came");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn real_servers_hold_what_was_measured() {
    crate::common::needs_simulator();
    let mut replays = [Replay::start(0), Replay::start(0)];
    let ports = replays.each_ref().map(|replay| replay.serving.port);
    let scraped = [ports[0], ports[1], twins::start()];
    let classic = Prometheus::start(&scraped, &[]);
    let native = Prometheus::start(&scraped, &["--enable-feature=native-histograms"]);
    let exact = replays.each_ref().map(Replay::rest);
    let mut both = exact[0].clone();
    both.merge(&exact[1]).expect("one version");
    for server in [&classic, &native] {
        server.wait_until_it_is_ready();
        server.wait_until_it_has(&ports, &exact);
        quantiles::kernels(server, &both);
    }
    quantiles::classic(&classic, &both);
    quantiles::native(&native, &both);
    twins::sums_are_right(&classic);
    series::rates_are_of_the_raw_samples(&classic, &native);
    series::no_counter_fell(&classic, &[0, 0], &ports);
    dashboard::every_query_has_an_answer(&classic);
    dashboard::every_query_has_an_answer(&native);
    dashboard::every_documented_query_has_an_answer(&classic);
    let page = http::get(replays[0].serving.port, "/metrics", "text/plain");
    promtool_has_no_complaint(&page);

    // A restart is a reset of that process, and of no other.
    let before = series::of_instance(&classic, ports[1]);
    replays[1].restart();
    let exact = [exact[0].clone(), replays[1].rest()];
    for server in [&classic, &native] {
        server.wait_until_it_has(&ports, &exact);
    }
    series::no_counter_fell(&classic, &[0, 1], &ports);
    series::resets_are(&classic, &native, &[0.0, 1.0], &ports);
    assert_eq!(series::of_instance(&classic, ports[1]), before);
}

fn promtool_has_no_complaint(page: &[u8]) {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool; `.ci/install` installs it");
    let mut input = promtool.stdin.take().expect("piped");
    input.write_all(page).expect("read");
    drop(input);
    let output = promtool.wait_with_output().expect("ended");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said, "");
}

/// The lane of that name.
fn lane<'a>(snapshot: &'a Snapshot, name: &str) -> &'a metrale_telemetry::snapshot::LaneSnapshot {
    let mut lanes = snapshot.lanes.iter();
    lanes.find(|lane| lane.lane == name).expect("a lane")
}
