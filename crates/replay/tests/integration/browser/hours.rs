// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hours of data, as fast as the page takes them: clock, timers and server are the
//! test's, all else is the page.

use super::figures::{NONE, Table, cells, share, time};
use super::{Browser, address, browser, demo, devtools::wait_for_the_same, http};
use serde_json::{Value, json};

/// Stands in for time and the server: each time the page asks for a snapshot, a
/// second has passed in which every bucket got one more. It draws every five minutes.
const FEED: &str = "(() => {
    let seconds = 0;
    const due = [];
    const frames = [];
    const { port1, port2 } = new MessageChannel();
    let until = 0;
    let steps = data.steps;
    port1.onmessage = () => {
        if (seconds % 300 === 0) frames.splice(0).forEach((frame) => frame());
        if (seconds < until) due.shift()();
    };
    window.requestAnimationFrame = (frame) => frames.push(frame);
    window.go = (second) => { until = second; port2.postMessage(0); };
    window.seconds = () => seconds;
    performance.now = () => 1000 * seconds;
    window.setTimeout = (after) => { due.push(after); port2.postMessage(0); };
    const more = ({ buckets, ...rest }) => ({ ...rest, buckets: buckets.slice(-20).map((bucket) => ({ ...bucket, count: bucket.count + seconds, sum_ns: bucket.sum_ns + 1000 * seconds })) });
    const answers = {
        'snapshot.json': () => {
            seconds += 1;
            const { snapshot } = data;
            const lanes = snapshot.lanes.map((lane) => ({ ...lane, gpu: more(lane.gpu), gap: more(lane.gap) }));
            return { ...snapshot, lanes, steps: snapshot.steps + 100 * seconds };
        },
        'steps.json': () => seconds % 300 > 0 ? steps : steps = data.steps.map((of) => ({ ...of, timeline: seconds, steps: of.steps.map((step) => ({ ...step, number: step.number + 100 * seconds })) })),
        'timeline.json': () => data.timeline.map((of) => ({ ...of, step: seconds })),
    };
    window.fetch = async (path) => {
        const answer = answers[path.split('/').at(-1)]();
        return { ok: true, json: async () => answer, headers: { get: () => String(1e9 * seconds) } };
    };
})();";

const HOUR: u64 = 3600;

/// A browser with the page, fed with lanes of the demo: so many buckets each has that
/// get more.
fn fed() -> Option<(Browser, Vec<(String, usize)>)> {
    let mut browser = browser()?;
    let demo = demo(0);
    let get = |path| -> Value { http::json(demo.port, path) };
    let snapshot = get("/snapshot.json");
    let lanes = snapshot["lanes"].as_array().expect("lanes").iter().map(|lane| {
        let buckets = lane["gpu"]["buckets"].as_array().expect("buckets").len();
        (lane["lane"].as_str().expect("a name").to_owned(), buckets.min(20))
    });
    let lanes = lanes.collect();
    let data = json!({"snapshot": snapshot, "steps": get("/steps.json"), "timeline": get("/timeline.json")});
    let script = json!({"source": format!("const data = {data};{FEED}")});
    browser.call("Page.addScriptToEvaluateOnNewDocument", script);
    browser.open(&address(&demo));
    Some((browser, lanes))
}

/// In sixty seconds each bucket got 60 spans of 1 µs, and 6,000 steps began. Of figures
/// that stood still nothing is known.
#[test]
fn the_last_minute_is_what_came_between_its_snapshots() {
    let Some((mut browser, lanes)) = fed() else { return };
    until(&mut browser, 600);
    let all: usize = lanes.iter().map(|(_, buckets)| buckets).sum();
    let lane = |(name, buckets): &(String, usize)| {
        let decimal = if *buckets < 10 { ".0" } else { "" };
        let known = [
            name.clone(),
            share(Some(*buckets as f64 / all as f64)),
            format!("{buckets}{decimal} /s"),
            time(Some(60_000.0 * *buckets as f64)),
        ];
        let rest = ["1.00 µs", "1.00 µs", "1.00 µs", NONE, NONE, NONE];
        known.into_iter().chain(rest.map(str::to_owned)).collect()
    };
    let expected: Table = lanes.iter().map(lane).collect();
    wait_for_the_same(|| (cells(&mut browser, "#lanes-table tbody"), expected.clone()));
    let steps = "document.querySelector('#gpu-facts dd').innerText.trim()";
    assert_eq!(browser.text(steps), "100 /s");
    let label = browser.text("document.getElementById('gpu-bar').ariaLabel");
    assert!(label.starts_with("Of the last 60 seconds: "), "{label}");
}

#[test]
fn eight_hours_take_no_more_memory_than_one() {
    let Some((mut browser, _)) = fed() else { return };
    let one = until(&mut browser, HOUR);
    for hour in 2..8 {
        until(&mut browser, hour * HOUR);
    }
    let eight = until(&mut browser, 8 * HOUR);
    println!("memory and nodes after one hour {one:?}, after eight {eight:?}");
    assert!(eight.0 < one.0 + one.0 / 10 + (1 << 20), "{one:?} {eight:?}");
    assert!(eight.1 <= one.1 + 20, "{one:?} {eight:?}");
    assert_eq!(browser.complaints(), [] as [&str; 0]);
}

/// Lets the page live until that second; its memory and nodes then.
fn until(browser: &mut Browser, second: u64) -> (u64, u64) {
    browser.eval(&format!("window.go({second})"));
    browser.wait(&format!("window.seconds() >= {second}"));
    browser.wait("document.querySelector('#timeline-chart canvas') !== null");
    (browser.memory(), browser.nodes())
}
