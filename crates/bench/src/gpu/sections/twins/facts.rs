// SPDX-License-Identifier: MIT OR Apache-2.0
//! What executables take, and what a driver does that its documents leave open.

use super::{KERNEL_NS, chain, spans};
use crate::gpu::Failure;
use crate::gpu::cuda::{Event, Stream};
use crate::gpu::graphs::Form;
use crate::gpu::page::{figure, figure_or};
use crate::gpu::run::Bench;
use crate::gpu::stats::summary;
use serde_json::json;
use std::time::Instant;

pub(super) fn making(bench: &Bench, stream: Stream, _: &[Event]) -> Result<(), Failure> {
    /// Executables at once, as a driver takes memory in pieces.
    const TOGETHER: usize = 8;
    let gpu = &bench.gpu;
    let columns = [
        "nodes",
        "clone, µs",
        "instantiation, µs",
        "upload, µs",
        "memory, kB",
        "memory by node, bytes",
    ];
    let title = "What an executable of a chain takes; memory is a mean of eight.";
    let table = bench.page.table("making", title, &columns);
    for nodes in [16, 64, 256, 1_024, 4_096] {
        let source = chain(bench, stream, nodes)?;
        let (mut took, mut ready) = ([const { Vec::new() }; 3], Vec::new());
        let free = gpu.free()?;
        for _ in 0..TOGETHER {
            let mut times = [Instant::now(); 4];
            let copy = gpu.cuda.clone_graph(source.graph)?;
            times[1] = Instant::now();
            let graph = gpu.cuda.instantiate(copy, 0)?;
            times[2] = Instant::now();
            gpu.cuda.upload_graph(graph, stream)?;
            gpu.cuda.sync(stream)?;
            times[3] = Instant::now();
            for (took, times) in took.iter_mut().zip(times.windows(2)) {
                took.push((times[1] - times[0]).as_nanos() as f64 / 1e3);
            }
            ready.push(graph);
        }
        let bytes = (free as f64 - gpu.free()? as f64) / TOGETHER as f64;
        ready.into_iter().try_for_each(|graph| gpu.cuda.destroy_exec(graph))?;
        let [clone, made, sent] = took.map(|us| figure_or(summary(us).map(|us| us.median), 1, "-"));
        let (memory, by_node) = (figure(bytes / 1e3, 1), figure(bytes / nodes as f64, 0));
        table.row(json!([nodes, clone, made, sent, memory, by_node]));
    }
    Ok(())
}

pub(super) fn programmatic(bench: &Bench, stream: Stream, events: &[Event]) -> Result<(), Failure> {
    let gpu = &bench.gpu;
    let source = chain(bench, stream, 64)?;
    let marks: Vec<_> = (0..63).zip(events.iter().copied()).collect();
    let graphs = [
        source.ready,
        gpu.marked(&source, Form::Between, marks.iter().copied())?,
        gpu.programmatic(&source, &[])?,
        gpu.programmatic(&source, &marks)?,
    ];
    let names = ["full", "full, with marks", "programmatic", "programmatic, with marks"];
    let title = "A chain of 64 by the kind of its edges; the kernels trigger nothing early.";
    let table = bench.page.table("programmatic", title, &["edges", "span, µs"]);
    for (name, span) in names.into_iter().zip(spans(bench, stream, &graphs, |_| Ok(()))?) {
        table.row(json!([name, figure(span / 1e3, 1)]));
    }
    Ok(())
}

pub(super) fn facts(bench: &Bench, stream: Stream, events: &[Event]) -> Result<(), Failure> {
    let table = bench.page.table("facts", "What this driver does.", &["question", "answer"]);
    table.row(json!(["an event of a graph is not ready again", flips(bench, stream, events)?]));
    table.row(json!(["a launch that fails enqueues", failed(bench, stream, events)?]));
    Ok(())
}

/// When the event of a graph that ran is not ready again.
fn flips(bench: &Bench, stream: Stream, events: &[Event]) -> Result<&'static str, Failure> {
    let gpu = &bench.gpu;
    let source = chain(bench, stream, 8)?;
    let graph = gpu.marked(&source, Form::Between, [(4, events[0])])?;
    gpu.cuda.launch_graph(graph, stream)?;
    gpu.cuda.sync(stream)?;
    gpu.launch(gpu.spin, stream, 50_000_000)?;
    gpu.cuda.launch_graph(graph, stream)?;
    let is_ready = gpu.query(events[0])?;
    gpu.cuda.sync(stream)?;
    Ok(if is_ready { "later than its launch is queued" } else { "when its launch is queued" })
}

/// Whether a launch that failed ran: of a graph whose memory is still taken.
fn failed(bench: &Bench, stream: Stream, events: &[Event]) -> Result<&'static str, Failure> {
    let gpu = &bench.gpu;
    let [first, inside] = [events[0], events[1]];
    let source = gpu.source(stream, || {
        gpu.cuda.alloc_on(1 << 16, stream)?;
        gpu.launch(gpu.spin, stream, KERNEL_NS)?;
        gpu.cuda.record_in_graph(inside, stream, 1)
    })?;
    gpu.cuda.record(first, stream)?;
    gpu.cuda.launch_graph(source.ready, stream)?;
    gpu.cuda.sync(stream)?;
    let before = gpu.elapsed(first, inside)?;
    gpu.launch(gpu.spin, stream, 2_000_000)?;
    if gpu.cuda.launch_graph(source.ready, stream).is_ok() {
        gpu.cuda.sync(stream)?;
        return Ok("unknown: a second launch with memory taken is accepted");
    }
    gpu.cuda.sync(stream)?;
    let is_same = gpu.elapsed(first, inside)? == before;
    Ok(if is_same { "nothing" } else { "its nodes, all the same" })
}
