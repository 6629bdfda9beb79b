// SPDX-License-Identifier: MIT OR Apache-2.0
//! The charts, by the label and the table that each has for whoever does not see
//! it: held against what the server says. And that fills tell apart without colour.

use super::figures::{NONE, Table, cells, count, made_of, share, time};
use super::{Browser, address, browser, demo, devtools::wait_for_the_same, http};
use metrale_telemetry::Snapshot;
use metrale_telemetry::kernel::StepShape;
use serde_json::Value;

#[test]
fn every_chart_has_its_data_as_text() {
    let Some(mut browser) = browser() else { return };
    let demo = demo(0);
    browser.open(&address(&demo));
    browser.wait("document.body.dataset.state === 'live'");
    browser.eval("document.querySelector('input[value=all]').click()");
    browser.eval("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
    wait_for_the_same(|| {
        let snapshot: Snapshot = http::json(demo.port, "/snapshot.json");
        let steps: Value = http::json(demo.port, "/steps.json");
        let shown = (
            list(&mut browser, "'#gpu-shares dd span:first-child'", "innerText"),
            list(&mut browser, "'#distributions .plot'", "ariaLabel"),
            spans(&mut browser),
            sorted(cells(&mut browser, "#shapes-chart tbody")),
            cells(&mut browser, "#steps-chart tbody"),
        );
        let lanes = snapshot.lanes.iter().filter(|lane| lane.gpu.count() > 0);
        let of_lane = |lane: &metrale_telemetry::snapshot::LaneSnapshot| {
            let quantile = |q| time(lane.gpu.quantile(q).map(|ns| ns as f64));
            let (many, p50, p99) = (count(lane.gpu.count()), quantile(0.5), quantile(0.99));
            let name = &lane.lane;
            format!("Distribution of the GPU time of {name}. {many} spans, p50 {p50}, p99 {p99}")
        };
        let expected = (
            shares(&snapshot),
            lanes.clone().map(of_lane).collect(),
            lanes.map(|lane| lane.gpu.count()).collect(),
            sorted(shapes(&snapshot)),
            steps_of(&steps[0]),
        );
        (shown, expected)
    });
    // Those that are drawn again and again, each with what it shows.
    let labels = list(&mut browser, "'figure:not([hidden]) .plot'", "ariaLabel");
    assert!(labels.len() >= 6 && labels.iter().all(|label| label.len() > 30), "{labels:?}");
    assert_eq!(browser.complaints(), [] as [&str; 0]);
}

/// How often ink begins along the chart's top, where no bar reaches.
const MARKS: &str = "(() => {
    const canvas = document.querySelector('#steps-chart canvas');
    const y = Math.round((document.querySelector('#steps-chart .u-over').offsetTop + 3) * devicePixelRatio);
    const { data } = canvas.getContext('2d').getImageData(0, y, canvas.width, 1);
    const inked = (x) => data[4 * x] < 100 && data[4 * x + 3] > 127;
    return Array.from({ length: canvas.width }, (_, x) => x).filter((x) => inked(x) && !inked(x - 1)).length;
})()";

#[test]
fn armed_steps_are_marked() {
    let Some(mut browser) = browser() else { return };
    let demo = demo(0);
    browser.show(1280, "light");
    browser.open(&address(&demo));
    browser.wait("document.querySelector('#steps-chart canvas') !== null");
    wait_for_the_same(|| {
        let steps: Value = http::json(demo.port, "/steps.json");
        let steps = steps[0]["steps"].as_array().expect("steps");
        let armed = steps.iter().filter(|step| step["armed"] == true).count();
        assert!(armed > 1, "one in 64 of {}", steps.len());
        (browser.eval(MARKS), Value::from(armed))
    });
}

/// In a legend no two fills have the same hatching.
#[test]
fn fills_tell_apart_without_colour() {
    let Some(mut browser) = browser() else { return };
    let demo = demo(0);
    browser.open(&address(&demo));
    browser.wait("document.querySelector('#steps-chart .key') !== null");
    for legend in
        ["#gpu-shares", "#lanes-table", "#gpu-chart figcaption", "#steps-chart figcaption"]
    {
        let fills = list(&mut browser, &format!("'{legend} .key:not([hidden])'"), "dataset.fill");
        let mut hatchings: Vec<_> =
            fills.iter().map(|fill| fill.rsplit(' ').next().expect("a hatching")).collect();
        hatchings.sort_unstable();
        hatchings.dedup();
        assert!(fills.len() > 1 && hatchings.len() == fills.len(), "{legend}: {fills:?}");
    }
}

/// A property of each element.
fn list(browser: &mut Browser, selector: &str, property: &str) -> Vec<String> {
    let list = browser.text(&format!(
        "JSON.stringify([...document.querySelectorAll({selector})].map((one) => one.{property}))"
    ));
    serde_json::from_str(&list).expect("texts")
}

/// How many spans the table of each distribution has.
fn spans(browser: &mut Browser) -> Vec<u64> {
    let figures = list(browser, "'#distributions figure'", "className").len();
    let of = |at: usize| {
        let rows = cells(browser, &format!("#distributions figure:nth-of-type({at}) tbody"));
        rows.iter().map(|row| row[2].replace(',', "").parse::<u64>().expect("a count")).sum()
    };
    (1..=figures).map(of).collect()
}

/// Busy, waited for, ends; between lanes is not known since the start.
fn shares(snapshot: &Snapshot) -> Vec<String> {
    let device = snapshot.device.expect("armed steps");
    let part = |ns: u64| share(Some(ns as f64 / device.time_ns as f64));
    let ends_ns = device.lead_ns + device.tail_ns;
    vec![part(device.busy_ns), part(device.waited_ns), part(ends_ns), NONE.to_owned()]
}

/// Lanes by how many tokens they worked on.
fn shapes(snapshot: &Snapshot) -> Table {
    let rows = snapshot.lanes.iter().flat_map(|lane| {
        lane.shapes.iter().map(|times| {
            let of = |whole: u64, parts: u64| whole as f64 / parts as f64;
            let most = count(u64::from(times.most_tokens));
            vec![
                if times.most_tokens > 0 { format!("≤ {most}") } else { most },
                format!("{}{}", lane.lane, if times.mixed { ", mixed steps" } else { "" }),
                count(times.steps),
                count(of(times.tokens, times.steps).round() as u64),
                time(Some(of(times.ns, times.steps))),
                time((times.tokens > 0).then(|| of(times.ns, times.tokens))),
            ]
        })
    });
    rows.collect()
}

fn sorted(mut table: Table) -> Table {
    table.sort();
    table
}

/// The last hundred steps, the newest first, of the lanes that any step had.
fn steps_of(source: &Value) -> Table {
    let steps = source["steps"].as_array().expect("steps");
    let ns = |of: &Value| of.as_u64().map(|ns| ns as f64);
    let lanes = 0..source["lanes"].as_array().expect("lanes").len();
    let had = lanes.filter(|lane| steps.iter().any(|step| !step["gpu_ns"][lane].is_null()));
    let had: Vec<usize> = had.collect();
    let row = |step: &Value| {
        let gpu = had.iter().map(|lane| ns(&step["gpu_ns"][lane]));
        let own = had.iter().filter(|lane| !step["gpu_ns"][lane].is_null());
        let gaps: Option<f64> = own.clone().map(|lane| ns(&step["gap_ns"][lane])).sum();
        let shape: Option<StepShape> =
            serde_json::from_value(step["shape"].clone()).expect("a shape");
        let mut row = vec![
            count(step["number"].as_u64().expect("a number")),
            if step["armed"] == true { "armed" } else { "" }.to_owned(),
            time(Some(gpu.clone().flatten().sum())),
        ];
        row.extend(gpu.map(time));
        row.extend([time(gaps.filter(|_| own.count() > 0)), made_of(shape)]);
        row
    };
    steps.iter().rev().take(100).map(row).collect()
}
