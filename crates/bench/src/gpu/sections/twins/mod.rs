// SPDX-License-Identifier: MIT OR Apache-2.0
//! What marks inside a graph cost and say, and what a driver does with them.

mod facts;

use super::{Body, Section, accuracy::error_spread};
use crate::gpu::Failure;
use crate::gpu::cuda::{Event, Graph, Stream};
use crate::gpu::graphs::{Form, Source};
use crate::gpu::page::{figure, figure_or};
use crate::gpu::rig::{self, EVERY};
use crate::gpu::run::Bench;
use crate::gpu::stats::summary;
use crate::gpu::timer::{COLUMNS, cost};
use metrale_gpu_runtime::timing::{Harvest, RecorderConfig, TwinState, TwinsConfig, Updates};
use metrale_telemetry::kernel::LANE_DECODE;
use serde_json::json;

pub(super) const SECTION: Section = Section {
    id: "twins",
    title: "Marks inside graphs",
    about: "Event-record nodes (marks) in copies of a graph. Between: behind a node and before what follows it, \
            with all edges kept, as in a twin. Leaf: nothing follows the mark. Cut: it takes the place of the \
            edges. Spans are between two events of the bench around a launch, medians; forms have their \
            launches in turn.",
    seconds: 60,
    body: Body::OnDevice(measure),
};

const FORMS: [(&str, Form); 3] =
    [("between", Form::Between), ("leaf", Form::Leaf), ("cut", Form::Cut)];
const CHAIN: usize = 512;
const FORK: usize = 8;
const KERNEL_NS: u64 = 5_000;
const ROUNDS: u32 = 100;
/// What is measured: each by itself, as some of it needs what not every driver has.
const PARTS: [(&str, Measure); 7] = [
    ("marks", marks),
    ("launches", launches),
    ("a recorder's twins", recorder),
    ("making", facts::making),
    ("accuracy", accuracy),
    ("programmatic edges", facts::programmatic),
    ("facts", facts::facts),
];

type Measure = fn(&Bench, Stream, &[Event]) -> Result<(), Failure>;

fn measure(bench: &Bench) -> Result<(), Failure> {
    let stream = bench.gpu.stream()?;
    let events = bench.gpu.events(CHAIN)?;
    for (name, measure) in PARTS {
        bench.page.trying(name);
        match measure(bench, stream, &events) {
            // What this driver cannot do; the other parts are measured.
            Err(failure @ (Failure::Call { .. } | Failure::Missing(_))) => {
                bench.page.note(format!("No {name}: {failure}."));
            }
            told => told?,
        }
    }
    Ok(())
}

fn chain(bench: &Bench, stream: Stream, nodes: usize) -> Result<Source, Failure> {
    bench.gpu.chain(stream, nodes, KERNEL_NS)
}

/// One kernel, so many side by side, and one.
fn fork(bench: &Bench, stream: Stream, events: &[Event]) -> Result<Source, Failure> {
    let gpu = &bench.gpu;
    let branches = (0..FORK).map(|_| gpu.stream()).collect::<Result<Vec<_>, _>>()?;
    gpu.source(stream, || {
        gpu.launch(gpu.spin, stream, KERNEL_NS)?;
        for (branch, event) in branches.iter().zip(events) {
            gpu.order(stream, *event, *branch)?;
            gpu.launch(gpu.spin, *branch, 4 * KERNEL_NS)?;
        }
        for (branch, event) in branches.iter().zip(events) {
            gpu.order(*branch, *event, stream)?;
        }
        gpu.launch(gpu.spin, stream, KERNEL_NS)
    })
}

/// The spans of launches in turn, ns, by graph; `each` sees every launch once it is over.
fn spans(
    bench: &Bench,
    stream: Stream,
    graphs: &[Graph],
    mut each: impl FnMut(usize) -> Result<(), Failure>,
) -> Result<Vec<f64>, Failure> {
    let gpu = &bench.gpu;
    let [from, to] = [gpu.event()?, gpu.event()?];
    let mut told = vec![Vec::new(); graphs.len()];
    for round in bench.budget.part(PARTS.len() as u32).rounds(3, ROUNDS) {
        for (at, graph) in graphs.iter().enumerate() {
            // Queued behind work, as in a busy server.
            gpu.launch(gpu.spin, stream, 100_000)?;
            rig::between(gpu, stream, [from, to], || gpu.cuda.launch_graph(*graph, stream))?;
            gpu.cuda.sync(stream)?;
            if round > 0 {
                told[at].push(gpu.elapsed(from, to)?);
                each(at)?;
            }
        }
    }
    let median = |spans| summary(spans).map_or(f64::NAN, |spans| spans.median);
    Ok(told.into_iter().map(median).collect())
}

fn marks(bench: &Bench, stream: Stream, events: &[Event]) -> Result<(), Failure> {
    let gpu = &bench.gpu;
    let columns = ["graph", "form", "marks", "span, µs", "to none, µs", "a mark, ns"];
    let table = bench.page.table("marks", "What marks cost the GPU.", &columns);
    let shapes = [
        ("chain of 512", chain(bench, stream, CHAIN)?, 0..CHAIN - 1),
        ("fork of 8", fork(bench, stream, events)?, 1..FORK + 1),
    ];
    for (shape, source, places) in &shapes {
        let mut graphs = vec![source.ready];
        for (_, form) in FORMS {
            let marks = places.clone().zip(events.iter().copied());
            graphs.push(gpu.marked(source, form, marks)?);
        }
        let spans = spans(bench, stream, &graphs, |_| Ok(()))?;
        let names = ["none"].into_iter().chain(FORMS.map(|(name, _)| name));
        for (name, span) in names.zip(&spans) {
            let count = if name == "none" { 0 } else { places.len() };
            let more = span - spans[0];
            let a_mark = figure(more / count as f64, 0);
            table.row(json!([
                shape,
                name,
                count,
                figure(span / 1e3, 1),
                figure(more / 1e3, 1),
                a_mark
            ]));
        }
    }
    lag(bench, stream, events, &shapes[0].1)
}

/// A leaf mark beside one between, behind the same node.
fn lag(bench: &Bench, stream: Stream, events: &[Event], chain: &Source) -> Result<(), Failure> {
    let gpu = &bench.gpu;
    let copy = gpu.cuda.clone_graph(chain.graph)?;
    let pairs: Vec<_> = events.chunks_exact(2).take(64).collect();
    for (at, pair) in pairs.iter().enumerate() {
        gpu.mark(chain, copy, Form::Between, (8 * at, pair[0]))?;
        gpu.mark(chain, copy, Form::Leaf, (8 * at, pair[1]))?;
    }
    let mut lags = Vec::new();
    spans(bench, stream, &[gpu.cuda.instantiate(copy, 0)?], |_| {
        for pair in &pairs {
            lags.push(gpu.elapsed(pair[0], pair[1])?);
        }
        Ok(())
    })?;
    let columns = ["marks", "least, ns", "median, ns", "p99, ns", "most, ns"];
    let title =
        "How much later a leaf mark comes than one between, behind the same node of a chain.";
    let table = bench.page.table("lag", title, &columns);
    if let Some(lag) = summary(lags) {
        let [least, median, p99, most] = lag.spread();
        table.row(json!([lag.count, least, median, p99, most]));
    }
    Ok(())
}

fn launches(bench: &Bench, stream: Stream, events: &[Event]) -> Result<(), Failure> {
    let gpu = &bench.gpu;
    let columns = ["marks"].into_iter().chain(COLUMNS).collect::<Vec<_>>();
    let title = "What a launch of a chain of 512 takes on the host.";
    let table = bench.page.table("launches", title, &columns);
    let source = chain(bench, stream, CHAIN)?;
    let counts = [0, 8, 32, 128, CHAIN - 1];
    for (at, count) in counts.into_iter().enumerate() {
        let apart = CHAIN / count.max(1);
        let marks = (0..count).map(|mark| mark * apart).zip(events.iter().copied());
        let graph = gpu.marked(&source, Form::Between, marks)?;
        let budget = bench.budget.part((4 * PARTS.len() * (counts.len() - at)) as u32);
        let prepare = || gpu.cuda.sync(stream);
        let cost = cost(&budget, ROUNDS, 8, prepare, |_| gpu.cuda.launch_graph(graph, stream))?;
        table.row(cost.row(count));
    }
    gpu.cuda.sync(stream)
}

fn recorder(bench: &Bench, stream: Stream, _: &[Event]) -> Result<(), Failure> {
    let gpu = &bench.gpu;
    let columns = [
        "marks",
        "twin launches",
        "plain launches",
        "twin, µs",
        "plain, µs",
        "twin to plain",
        "a mark, ns",
    ];
    let title = "Twins of a chain of 512, by a recorder that arms every step.";
    let table = bench.page.table("recorder", title, &columns);
    let source = chain(bench, stream, CHAIN)?;
    for marks in [8, 32, CHAIN + 8] {
        let twins = TwinsConfig { marks, resident: 1, ..TwinsConfig::default() };
        let config = RecorderConfig {
            harvest: Harvest::Explicit,
            twins: Some(twins),
            ..RecorderConfig::default()
        };
        let telemetry = rig::telemetry(EVERY)?;
        let recorder = rig::recorder(gpu, telemetry, config)?;
        // SAFETY: a graph here lives as long as the process, and stays on this thread.
        let twin = unsafe { recorder.twin_raw(gpu.raw(&source)?, "chain", Updates::Never) };
        if let TwinState::Refused(why) = twin.state() {
            bench.page.note(format!("No twin with {marks} marks: {why}."));
            continue;
        }
        for _ in bench.budget.part(PARTS.len() as u32).rounds(24, 4 * ROUNDS) {
            gpu.launch(gpu.spin, stream, 100_000)?;
            let step = recorder.step();
            let launched = step.lane(LANE_DECODE, stream.of(gpu)).replay(&twin);
            let call = c"cuGraphLaunch";
            launched.map_err(|status| Failure::Call { call, status })?;
            drop(step);
            gpu.cuda.sync(stream)?;
            rig::settle(&recorder)?;
            // Marks are read behind the spans.
            (0..4).for_each(|_| _ = recorder.harvest());
            twin.renew();
        }
        let snapshot = telemetry.snapshot();
        let Some(figures) = snapshot.graphs.first().map(|graph| &graph.figures) else {
            continue;
        };
        let mean = |ns: u64, count: u64| figure(ns as f64 / count as f64 / 1e3, 1);
        table.row(json!([
            marks,
            figures.twin_launches,
            figures.plain_launches,
            mean(figures.twin_ns, figures.twin_launches),
            mean(figures.plain_ns, figures.plain_launches),
            figure_or(figures.perturbation, 3, "unknown"),
            figure_or(figures.mark_ns, 0, "unknown"),
        ]));
    }
    Ok(())
}

/// A kernel that times itself, between two marks.
fn accuracy(bench: &Bench, stream: Stream, events: &[Event]) -> Result<(), Failure> {
    let gpu = &bench.gpu;
    let columns = [
        "kernel, µs",
        "between its marks, ns",
        "error, least, ns",
        "error, median, ns",
        "error, p99, ns",
    ];
    let title =
        "From mark to mark, less the kernel's own time by `%globaltimer`: with what a mark costs.";
    let table = bench.page.table("accuracy", title, &columns);
    for us in [2, 5, 10, 50, 200, 1_000] {
        let source = gpu.source(stream, || {
            gpu.launch(gpu.spin, stream, KERNEL_NS)?;
            gpu.stamped(stream, us * 1_000)?;
            gpu.launch(gpu.spin, stream, KERNEL_NS)
        })?;
        let graph = gpu.marked(&source, Form::Between, [(0, events[0]), (1, events[1])])?;
        let (mut between, mut errors) = (Vec::new(), Vec::new());
        spans(bench, stream, &[graph], |_| {
            let ns = gpu.elapsed(events[0], events[1])?;
            between.push(ns);
            if !gpu.driver.is_simulated() {
                errors.push(ns - gpu.stamp()?);
            }
            Ok(())
        })?;
        let between = figure_or(summary(between).map(|ns| ns.median), 0, "-");
        let [least, median, p99, _] = error_spread(summary(errors));
        table.row(json!([us, between, least, median, p99]));
    }
    Ok(())
}
