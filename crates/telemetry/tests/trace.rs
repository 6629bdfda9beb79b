// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of a trace, event by event, and what it is where names and numbers
//! are hard.
#![cfg(all(feature = "trace", not(metrale_loom)))]

#[path = "served/mod.rs"]
mod served;

use metrale_telemetry::kernel::{LANE_DECODE, LANE_PREFILL, SpanKey, SpanPoll, StepShape};
use metrale_telemetry::runtime::{GraphPart, KernelName, RecorderSource, TwinLaunch};
use metrale_telemetry::snapshot::{RecorderSnapshot, RowKind};
use metrale_telemetry::trace::{DeviceTimelines, write_trace};
use metrale_telemetry::{Telemetry, TelemetryConfig};
use serde_json::Value;
use served::Served;
use std::sync::{Arc, Weak};

const STREAM: u64 = 0x7f00;
const SIDE: u64 = 0x7f80;

/// Names a kernel, in a way that JSON has to escape, and a graph.
struct Named;

impl RecorderSource for Named {
    fn recorder(&self) -> RecorderSnapshot {
        RecorderSnapshot::default()
    }
    fn name(&self, func: u64) -> Option<KernelName> {
        let (text, kind) = match func {
            7 => ("gemm<\"f16\", '\\n'>\n", RowKind::Kernel),
            8 => ("decode graph", RowKind::Graph),
            _ => return None,
        };
        Some(KernelName { text: text.into(), kind })
    }
}

fn served() -> Served {
    let served = Served::new();
    let config = TelemetryConfig { every: 1, ..TelemetryConfig::DEFAULT };
    served.telemetry.configure(config).unwrap();
    served
}

/// A prefill that waits, and a decode whose launch goes on beside it.
fn serve_step(served: &mut Served) {
    let step = served.telemetry.step_begin();
    let mut span = |key, lane, stream, start_ns, ns| {
        served.span(step, (key, lane, stream), start_ns, SpanPoll::Ready(ns));
    };
    span(SpanKey::Lane(LANE_PREFILL), LANE_PREFILL, STREAM, 500, 2_000);
    span(SpanKey::Kernel(7), LANE_PREFILL, STREAM, 1_000, 1_250);
    span(SpanKey::Lane(LANE_DECODE), LANE_DECODE, STREAM, 3_001, 4_000);
    span(SpanKey::Kernel(8), LANE_DECODE, STREAM, 3_001, 3_999);
    span(SpanKey::Kernel(9), LANE_DECODE, SIDE, 6_000, 2_000);
    served.telemetry.shape(step, StepShape::new().prompt_tokens(512));
    served.telemetry.close_step(step, Some(10_000..19_000));
    // What marks told of the graph may come before the step is over.
    let launch = TwinLaunch { step: step.number().unwrap(), graph: 8, ns: 3_999 };
    let part = |before_end_ns, ns, func, nodes| GraphPart { before_end_ns, ns, func, nodes };
    let parts =
        [part(1_500, 2_400, None, 12), part(1_490, 10, None, 1), part(0, 1_490, Some(7), 1)];
    served.telemetry.add_parts(launch, parts.into_iter());
    served.close(step);
    served.harvest();
}

fn trace(telemetry: &Telemetry) -> String {
    let timelines = telemetry.timelines();
    let device = DeviceTimelines { device: 3, telemetry, timelines: &timelines };
    let mut json = Vec::new();
    write_trace(&mut json, &[device]).expect("memory");
    String::from_utf8(json).expect("UTF-8")
}

#[test]
fn a_step_is_written_as_the_profiler_would() {
    let mut served = served();
    let named: Arc<dyn RecorderSource> = Arc::new(Named);
    let weak: Weak<dyn RecorderSource> = Arc::downgrade(&named);
    served.telemetry.attach(weak).expect("the first");
    serve_step(&mut served);
    let text = trace(&served.telemetry);
    assert_eq!(text, include_str!("data/trace.json"));
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let events = json["traceEvents"].as_array().expect("events");
    let gemm =
        events.iter().find(|event| event["args"]["correlation"] == 3 && event["cat"] == "kernel");
    assert_eq!(gemm.expect("it ran")["name"], "gemm<\"f16\", '\\n'>\n");
}

/// Steps whose work takes longer than the host thought stand one after the
/// other, and one that begins later stands where it began.
#[test]
fn steps_never_overlap() {
    let mut served = served();
    for _ in 0..3 {
        serve_step(&mut served);
    }
    let json: Value = serde_json::from_str(&trace(&served.telemetry)).expect("JSON");
    let events = json["traceEvents"].as_array().expect("events");
    let steps = events.iter().filter(|event| {
        let name = event["name"].as_str();
        name.is_some_and(|name| name.starts_with("ProfilerStep#"))
    });
    let mut ends = 0.0;
    let mut count = 0;
    for step in steps {
        let (start, length) = (step["ts"].as_f64().unwrap(), step["dur"].as_f64().unwrap());
        assert!(start >= ends, "{step}");
        ends = start + length;
        count += 1;
    }
    assert_eq!(count, 3);
}

#[test]
fn no_steps_are_a_trace_too() {
    let json: Value = serde_json::from_str(&trace(&Telemetry::new())).expect("JSON");
    let events = json["traceEvents"].as_array().expect("events");
    assert!(events.iter().all(|event| event["ph"] == "M"), "{json}");
}
