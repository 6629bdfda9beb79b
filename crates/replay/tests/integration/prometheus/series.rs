// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw samples that a server keeps: rates are theirs, and counters fall at a
//! restart only.

use super::server::{Prometheus, number};
use serde_json::Value;
use std::collections::BTreeSet;

/// Longer than the test has run.
const ALL: &str = "[10m]";

fn instance(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// First and last of a series' values.
fn ends(series: &Value) -> (f64, f64) {
    let values = series["values"].as_array().expect("samples");
    let value = |at: Option<&Value>| number(&at.expect("a sample")[1]);
    (value(values.first()), value(values.last()))
}

/// First and last of a native histogram's counts and sums.
fn native_ends(series: &Value) -> [(f64, f64); 2] {
    let samples = series["histograms"].as_array().expect("histograms");
    assert!(samples.len() > 3, "too few scrapes under load");
    let of = |at: Option<&Value>, what: &str| number(&at.expect("a sample")[1][what]);
    ["sum", "count"].map(|what| (of(samples.first(), what), of(samples.last(), what)))
}

/// The mean time of a span, by `rate`, is the quotient of what the raw samples
/// grew by: the window is the same for sum and count.
pub(crate) fn rates_are_of_the_raw_samples(classic: &Prometheus, native: &Prometheus) {
    let name = "metrale_gpu_lane_seconds";
    let decode = "{lane=\"decode\"}";
    let of = |suffix: &str| format!("{name}_{suffix}{decode}{ALL}");
    let (sums, counts) = (classic.query(&of("sum")), classic.query(&of("count")));
    let rates = classic.values(&format!("rate({}) / rate({})", of("sum"), of("count")), "instance");
    assert_eq!(rates.len(), 2);
    for (instance, rate) in rates {
        let own = |all: &[Value]| {
            let series =
                all.iter().find(|series| series["metric"]["instance"] == instance.as_str());
            let (first, last) = ends(series.expect("its samples"));
            assert!(last > first, "nothing came in between the scrapes");
            last - first
        };
        let exact = own(&sums) / own(&counts);
        assert!((rate / exact - 1.0).abs() < 1e-9, "{instance}: {rate} is not {exact}");
    }

    let all = format!("{name}{decode}{ALL}");
    let rate = format!("histogram_sum(rate({all})) / histogram_count(rate({all}))");
    let rates = native.values(&rate, "instance");
    assert_eq!(rates.len(), 2);
    for series in native.query(&all) {
        let [sum, count] = native_ends(&series);
        let exact = (sum.1 - sum.0) / (count.1 - count.0);
        let (_, rate) = rates
            .iter()
            .find(|(instance, _)| series["metric"]["instance"] == instance.as_str())
            .expect("a rate");
        assert!((rate / exact - 1.0).abs() < 1e-9, "{rate} is not {exact}");
    }
}

/// No series of a counter fell more often than its process was restarted.
pub(crate) fn no_counter_fell(server: &Prometheus, restarts: &[usize], ports: &[u16]) {
    let mut seen = 0;
    for (port, restarts) in ports.iter().zip(restarts) {
        let all = format!(
            "{{__name__=~\"metrale_.*_(total|count|sum|bucket)\", instance=\"{}\"}}{ALL}",
            instance(*port)
        );
        for series in server.query(&all) {
            let samples = series["values"].as_array().expect("samples");
            let values: Vec<f64> = samples.iter().map(|sample| number(&sample[1])).collect();
            let fell = values.windows(2).filter(|pair| pair[1] < pair[0]).count();
            assert!(fell <= *restarts, "{} fell: {values:?}", series["metric"]);
            seen += 1;
        }
    }
    assert!(seen > 500, "{seen} series");
}

/// As PromQL counts them.
pub(crate) fn resets_are(
    classic: &Prometheus,
    native: &Prometheus,
    expected: &[f64],
    ports: &[u16],
) {
    let by_port: Vec<(String, f64)> =
        ports.iter().map(|at| instance(*at)).zip(expected.to_vec()).collect();
    let mut by_port = by_port;
    by_port.sort_by(|a, b| a.0.cmp(&b.0));
    for server in [classic, native] {
        let resets = server.values(&format!("resets(metrale_steps_total{ALL})"), "instance");
        let own = |(instance, _): &(String, f64)| by_port.iter().any(|(own, _)| own == instance);
        let resets: Vec<_> = resets.into_iter().filter(own).collect();
        assert_eq!(resets, by_port);
    }
}

/// Names and labels of all series that an instance has now.
pub(crate) fn of_instance(server: &Prometheus, port: u16) -> BTreeSet<String> {
    let all = format!("{{__name__=~\"metrale_.*\", instance=\"{}\"}}", instance(port));
    let series = server.query(&all);
    series.iter().map(|series| series["metric"].to_string()).collect()
}
