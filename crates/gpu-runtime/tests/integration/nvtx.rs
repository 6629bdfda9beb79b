// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ranges as a tool sees them: a listener of our own is loaded by NVTX through
//! the environment, as a profiler is, and writes down every push and pop.

use super::rig::{App, config, context, driver, func, stream};
use metrale_gpu_runtime::timing::Recorder;
use metrale_gpu_sim::child;
use metrale_gpu_sim::control;
use metrale_telemetry::Level;
use metrale_telemetry::kernel::{LANE_ADMIT, LANE_DECODE, LANE_PREFILL, nvtx_pop, nvtx_push_lane};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The listener, which `cargo xtask test` builds.
fn listener() -> PathBuf {
    let library = std::env::var_os("METRALE_NVTX_LISTENER").map(PathBuf::from);
    library.expect("METRALE_NVTX_LISTENER is not set: run `cargo xtask test`")
}

/// A line of the listener's log.
#[derive(Clone, Debug)]
struct Line {
    thread: u64,
    what: String,
    domain: String,
    name: String,
    payload: Option<u64>,
    category: Option<u64>,
    colour: Option<u64>,
}

/// Runs that test again under the listener, and gives what it wrote down.
fn heard(test: &str) -> Vec<Line> {
    let library = listener();
    let log = std::env::temp_dir().join(format!("metrale-nvtx-{}-{test}", std::process::id()));
    let variables =
        [("NVTX_INJECTION64_PATH", library.as_os_str()), ("METRALE_NVTX_LOG", log.as_os_str())];
    child::passes(&format!("nvtx::{test}"), &variables);
    let text = std::fs::read_to_string(&log).expect("the listener wrote its log");
    std::fs::remove_file(&log).expect("ours");
    let number = |field: &str| field.parse().ok();
    let line = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [thread, what, domain, name, payload, category, colour] = fields[..] else {
            panic!("{line:?}");
        };
        Line {
            thread: thread.parse().expect("a number"),
            what: what.to_owned(),
            domain: domain.to_owned(),
            name: name.to_owned(),
            payload: number(payload),
            category: number(category),
            colour: number(colour),
        }
    };
    text.lines().map(line).collect()
}

/// Checks that every range of the domain is popped on its thread, and gives
/// each as the names around it and its own, in the order of the pops.
fn nested(lines: &[Line], domain: &str) -> Vec<String> {
    let mut open: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    let mut ranges = Vec::new();
    for line in lines.iter().filter(|line| line.domain == domain) {
        let stack = open.entry(line.thread).or_default();
        match line.what.as_str() {
            "push" => stack.push(&line.name),
            "pop" => {
                ranges.push(stack.join("/"));
                stack.pop().expect("nothing is popped that was not pushed");
            }
            _ => {}
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
    ranges
}

fn count(ranges: &[String], path: &str) -> usize {
    ranges.iter().filter(|range| *range == path).count()
}

const STEPS: usize = 100_000;

/// A step with all lanes on a thread's own stream.
fn serve(recorder: &Recorder, on: u64) {
    let step = recorder.step();
    for lane in [LANE_ADMIT, LANE_PREFILL, LANE_DECODE] {
        drop(step.lane(lane, stream(on)));
    }
}

#[test]
fn lanes_nest_in_their_steps_on_every_thread() {
    if child::is_child() {
        let app = App::new();
        let recorder = app.recorder();
        let streams = [app.stream, app.new_stream()];
        std::thread::scope(|scope| {
            for on in streams {
                let recorder = &recorder;
                scope.spawn(move || {
                    for step in 0..STEPS / 2 {
                        serve(recorder, on);
                        if step % 16 == 0 {
                            recorder.harvest();
                        }
                    }
                });
            }
        });
        return;
    }
    let lines = heard("lanes_nest_in_their_steps_on_every_thread");
    let ranges = nested(&lines, "metrale");
    assert_eq!(count(&ranges, "step"), STEPS);
    for lane in ["step/admit", "step/prefill", "step/decode"] {
        assert_eq!(count(&ranges, lane), STEPS, "{lane}");
    }
    assert_eq!(ranges.len(), 4 * STEPS, "and nothing else");

    // Steps carry their number, each once.
    let steps = lines.iter().filter(|line| line.name == "step");
    let mut numbers: Vec<u64> = steps.clone().filter_map(|line| line.payload).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..STEPS as u64));
    // The test's recorder arms every step, and they can be told apart.
    assert!(steps.clone().all(|line| line.category == Some(1) && line.colour.is_some()));
    let names = lines.iter().filter(|line| line.what == "category");
    let names: Vec<_> = names.map(|line| (line.name.as_str(), line.category)).collect();
    assert_eq!(names, [("armed", Some(1))]);
}

#[test]
fn panics_returns_and_levels_leave_nothing_open() {
    if child::is_child() {
        let app = App::new();
        let recorder = app.recorder();
        std::panic::set_hook(Box::new(|_| {}));
        for _ in 0..100 {
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let step = recorder.step();
                let _lane = step.lane(LANE_DECODE, stream(app.stream));
                panic!("in the lane");
            }));
            assert!(panicked.is_err());
            // The level falls while both are open, and again between the two.
            let step = recorder.step();
            let lane = step.lane(LANE_PREFILL, stream(app.stream));
            recorder.telemetry().set_level(Level::Off);
            drop(lane);
            drop(step);
            let step = recorder.step();
            recorder.telemetry().set_level(Level::Kernel);
            drop(step.lane(LANE_ADMIT, stream(app.stream)));
            drop(step);
            recorder.harvest();
        }
        return;
    }
    let lines = heard("panics_returns_and_levels_leave_nothing_open");
    let ranges = nested(&lines, "metrale");
    assert_eq!(count(&ranges, "step/decode"), 100);
    assert_eq!(count(&ranges, "step/prefill"), 100);
    assert_eq!(count(&ranges, "step"), 200);
    // The third step began at Off: neither it nor its lane is shown.
    assert_eq!(ranges.len(), 400);
}

#[test]
fn tokens_have_no_range_and_unarmed_steps_no_colour() {
    if child::is_child() {
        let app = App::new();
        let recorder = app.try_recorder(config()).unwrap();
        let fourth = metrale_telemetry::TelemetryConfig {
            every: 4,
            sampling: metrale_telemetry::Sampling::EveryNth,
            ..metrale_telemetry::TelemetryConfig::DEFAULT
        };
        recorder.telemetry().configure(fourth).unwrap();
        for _ in 0..8 {
            let step = recorder.step();
            let lane = step.lane(LANE_DECODE, stream(app.stream));
            drop(lane.launch_guard(func(app.spin)));
            control::advance_ns(1_000);
        }
        let step = recorder.telemetry().step_begin();
        let token = recorder.begin_lane(step, LANE_DECODE, stream(app.stream)).unwrap();
        recorder.end_lane(token, stream(app.stream));
        return;
    }
    let lines = heard("tokens_have_no_range_and_unarmed_steps_no_colour");
    assert_eq!(nested(&lines, "metrale").len(), 16);
    let pushed: Vec<_> = lines.iter().filter(|line| line.name == "step").collect();
    let armed = |line: &&&Line| line.category == Some(1) && line.colour.is_some();
    let plain = |line: &&&Line| line.category.is_none() && line.colour.is_none();
    assert_eq!(pushed.iter().filter(armed).count(), 2);
    assert_eq!(pushed.iter().filter(plain).count(), 6);
}

#[test]
fn lanes_pushed_by_hand_are_in_the_default_domain() {
    if child::is_child() {
        for lane in [LANE_PREFILL, LANE_DECODE, 3, usize::MAX] {
            nvtx_push_lane(lane);
        }
        nvtx_pop();
        nvtx_pop();
        return;
    }
    let lines = heard("lanes_pushed_by_hand_are_in_the_default_domain");
    assert_eq!(nested(&lines, ""), ["prefill/decode", "prefill"]);
    assert!(lines.iter().all(|line| line.domain.is_empty()));
}

#[test]
fn lanes_that_the_application_named_have_ranges_of_their_names() {
    if child::is_child() {
        let app = App::new();
        let telemetry = metrale_telemetry::global();
        telemetry.name_lanes(&["draft", "sample"]).unwrap();
        // SAFETY: the context lives as long as the application, which outlives it.
        let recorder = unsafe {
            Recorder::from_raw(driver(), context(app.context), telemetry, config()).unwrap()
        };
        let step = recorder.step();
        for lane in [LANE_DECODE, 3, 4, 5] {
            drop(step.lane(lane, stream(app.stream)));
        }
        nvtx_push_lane(4);
        nvtx_push_lane(5);
        nvtx_pop();
        return;
    }
    let lines = heard("lanes_that_the_application_named_have_ranges_of_their_names");
    let ranges = nested(&lines, "metrale");
    let expected = ["step/decode", "step/draft", "step/sample", "step"];
    assert_eq!(ranges, expected);
    assert_eq!(nested(&lines, ""), ["sample"]);
}
