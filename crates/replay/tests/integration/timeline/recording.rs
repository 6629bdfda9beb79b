// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording, read without any code of the product.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    cat: Option<String>,
    name: Option<Box<RawValue>>,
    ts: Option<Box<RawValue>>,
    dur: Option<Box<RawValue>>,
    pid: Option<Box<RawValue>>,
    args: Option<Arguments>,
}

#[derive(Deserialize)]
struct Arguments {
    correlation: Option<i64>,
    device: Option<i64>,
    stream: Option<i64>,
}

/// A piece of GPU work.
pub(crate) struct Work {
    pub(crate) start_ns: i64,
    pub(crate) ns: i64,
    /// Device and stream.
    pub(crate) stream: (i64, i64),
    pub(crate) correlation: i64,
}

/// A host call that launched work.
pub(crate) struct Call {
    pub(crate) at_ns: i64,
    pub(crate) is_graph: bool,
}

/// A step, by the host's time.
pub(crate) struct Step {
    pub(crate) start_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) lane: &'static str,
}

/// All of a recording of one process.
pub(crate) struct Recording {
    /// In the order of their starts.
    pub(crate) works: Vec<Work>,
    /// By correlation.
    pub(crate) calls: HashMap<i64, Call>,
    pub(crate) steps: Vec<Step>,
}

/// Decimal microseconds as whole nanoseconds.
fn nanos(text: Option<&RawValue>) -> i64 {
    let text = text.expect("a stamp").get().trim_matches('"');
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let (digits, rest) = fraction.split_at(fraction.len().min(3));
    assert!(rest.bytes().all(|digit| digit == b'0'), "{text}: below 1 ns");
    let fraction: i64 = format!("{digits:0<3}").parse().expect("digits");
    let whole: i64 = whole.parse().expect("digits");
    whole * 1_000 + fraction
}

fn text(raw: Option<&RawValue>) -> String {
    let raw = raw.map_or("null", RawValue::get);
    serde_json::from_str(raw).unwrap_or_default()
}

/// The lane that a step's name states; `None`: it is no step's.
fn lane(name: &str) -> Option<&'static str> {
    let is_step = ["execute_", "step[", "ProfilerStep#"].iter().any(|head| name.starts_with(head));
    let stated = name.split_once("_context_").map(|(_, rest)| rest);
    let prompts = stated.is_some_and(|rest| !rest.starts_with("0("));
    is_step.then_some(if prompts { "prefill" } else { "decode" })
}

impl Recording {
    pub(crate) fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).expect("a recording");
        let mut plain = Vec::new();
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut unpacked = flate2::read::MultiGzDecoder::new(&bytes[..]);
            unpacked.read_to_end(&mut plain).expect("gzip");
        } else {
            plain = bytes;
        }
        let document: Document = serde_json::from_slice(&plain).expect("JSON");
        let mut recording = Self { works: Vec::new(), calls: HashMap::new(), steps: Vec::new() };
        let mut processes = Vec::new();
        for event in &document.events {
            recording.add(event, &mut processes);
        }
        processes.dedup();
        assert_eq!(processes.len(), 1, "the host's work is of one process");
        recording.works.sort_by_key(|work| work.start_ns);
        recording.keep_the_outermost_steps();
        recording
    }

    fn add(&mut self, event: &Event, processes: &mut Vec<String>) {
        let category = event.cat.as_deref().unwrap_or_default();
        let ids = event.args.as_ref();
        let correlation = ids.and_then(|ids| ids.correlation);
        let name = text(event.name.as_deref());
        match category {
            "kernel" | "gpu_memcpy" | "gpu_memset" => {
                let ids = ids.expect("where it ran");
                self.works.push(Work {
                    start_ns: nanos(event.ts.as_deref()),
                    ns: nanos(event.dur.as_deref()),
                    stream: (ids.device.expect("a device"), ids.stream.expect("a stream")),
                    correlation: correlation.expect("a correlation"),
                });
            }
            "cuda_runtime" | "cuda_driver" => {
                let Some(correlation) = correlation else {
                    return;
                };
                processes.push(text(event.pid.as_deref()));
                let call = Call {
                    at_ns: nanos(event.ts.as_deref()),
                    is_graph: name.contains("GraphLaunch"),
                };
                let before = self.calls.insert(correlation, call);
                assert!(before.is_none(), "two calls of id {correlation}");
            }
            "user_annotation" => {
                let Some(lane) = lane(&name) else { return };
                let start_ns = nanos(event.ts.as_deref());
                self.steps.push(Step {
                    start_ns,
                    end_ns: start_ns + nanos(event.dur.as_deref()),
                    lane,
                });
            }
            _ => {}
        }
    }

    fn keep_the_outermost_steps(&mut self) {
        let all = std::mem::take(&mut self.steps);
        let mut outermost: Vec<Step> = Vec::new();
        let mut sorted = all;
        sorted.sort_by_key(|step| (step.start_ns, std::cmp::Reverse(step.end_ns)));
        for step in sorted {
            let is_inside = outermost.last().is_some_and(|outer| step.end_ns <= outer.end_ns);
            if !is_inside {
                outermost.push(step);
            }
        }
        self.steps = outermost;
    }

    /// The step whose time has the work's launch record.
    pub(crate) fn step(&self, work: &Work) -> Option<usize> {
        let at_ns = self.calls.get(&work.correlation)?.at_ns;
        let has = |step: &Step| step.start_ns <= at_ns && at_ns < step.end_ns;
        self.steps.iter().rposition(has)
    }

    /// Whether a graph launched the work.
    pub(crate) fn is_in_graph(&self, work: &Work) -> bool {
        let call = self.calls.get(&work.correlation);
        call.is_some_and(|call| call.is_graph)
    }
}
