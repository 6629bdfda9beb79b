// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far a span is from what its kernel says itself.

use super::{Body, Section};
use crate::gpu::Failure;
use crate::gpu::cuda::Stream;
use crate::gpu::page::{figure, figure_or};
use crate::gpu::rig::{self, EVERY};
use crate::gpu::run::Bench;
use crate::gpu::stats::{Summary, summary, tick};
use metrale_gpu_runtime::timing::Recorder;
use serde_json::{Value, json};

pub(super) const SECTION: Section = Section {
    id: "accuracy",
    title: "Accuracy",
    about: "A span of the recorder around one kernel, less the time by the kernel's own `%globaltimer` \
            (its first instruction to its last): the launch and the end of the kernel are in the span and \
            not in its own time. Queued: the kernel waits behind another, as in a busy server. Idle: the \
            start event finds an idle stream, so that the host's way from event to launch is in the span, too.",
    seconds: 40,
    body: Body::OnDevice(measure),
};

const DURATIONS_US: [u64; 14] =
    [2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000];

/// GPU time of the kernel that a queued one waits behind.
const BEFORE_NS: u64 = 300_000;
const ROUNDS: u32 = 200;

fn measure(bench: &Bench) -> Result<(), Failure> {
    let gpu = &bench.gpu;
    let stream = gpu.stream()?;
    if gpu.driver.is_simulated() {
        bench.page.note(
            "The kernels' own times are not measurable on the simulator: its kernels write nothing.",
        );
    } else {
        let tick = tick(&gpu.tick(stream)?);
        let tick = tick.map_or("no tick".to_owned(), |ns| format!("{ns:.0} ns"));
        bench.page.note(format!(
            "`%globaltimer` moves in steps of {tick}: no error below that means anything."
        ));
    }
    let columns = [
        "kernel, µs",
        "case",
        "spans",
        "span, median, ns",
        "error, least, ns",
        "error, median, ns",
        "error, p99, ns",
        "error, most, ns",
        "error of the median, %",
    ];
    let table = bench.page.table("error", "Span less the kernel's own time.", &columns);
    let recorder = rig::explicit(gpu, EVERY)?;
    let cases = DURATIONS_US.iter().flat_map(|us| [(us, "queued"), (us, "idle")]);
    for (at, (us, case)) in cases.enumerate() {
        let budget = bench.budget.part((2 * DURATIONS_US.len() - at) as u32);
        let (mut spans, mut errors) = (Vec::new(), Vec::new());
        for round in budget.rounds(3, ROUNDS) {
            let (span, own) = once(bench, &recorder, stream, us * 1_000, case == "queued")?;
            if round > 0 {
                spans.push(span);
                errors.extend(own.map(|own| span - own));
            }
        }
        let (Some(span), error) = (summary(spans), summary(errors)) else { continue };
        let share = error.map(|error| 100.0 * error.median / span.median);
        let share = figure_or(share, 2, NO_CLOCK);
        let [least, median, p99, most] = error_spread(error);
        let (count, span) = (span.count, figure(span.median, 0));
        table.row(json!([us, case, count, span, least, median, p99, most, share]));
    }
    Ok(())
}

/// Where kernels do not tell their own time.
const NO_CLOCK: &str = "not measurable";

/// The spread of errors to what kernels tell.
pub(super) fn error_spread(errors: Option<Summary>) -> [Value; 4] {
    errors.map_or([NO_CLOCK; 4].map(Value::from), |errors| errors.spread())
}

/// One kernel in a span: what the span says and what the kernel says, ns.
fn once(
    bench: &Bench,
    recorder: &Recorder,
    stream: Stream,
    ns: u64,
    queued: bool,
) -> Result<(f64, Option<f64>), Failure> {
    let gpu = &bench.gpu;
    let landed = || -> u64 {
        let kernels = recorder.telemetry().instruments().kernels();
        kernels.iter().map(|kernel| kernel.total_ns).sum()
    };
    let before = landed();
    gpu.cuda.sync(stream)?;
    if queued {
        gpu.launch(gpu.spin, stream, BEFORE_NS)?;
    }
    let step = recorder.telemetry().step_begin();
    rig::span(gpu, stream, recorder, step, || gpu.stamped(stream, ns))?;
    gpu.cuda.sync(stream)?;
    rig::settle(recorder)?;
    let span = (landed() - before) as f64;
    if gpu.driver.is_simulated() {
        return Ok((span, None));
    }
    let own = gpu.stamp()?;
    if own < ns as f64 {
        return Err(Failure::Other(format!("the kernel says {own} ns of {ns} ns")));
    }
    Ok((span, Some(own)))
}
