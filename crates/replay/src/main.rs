// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command: reads the arguments and says what came of it.
//!
//! Invariant: an error is one line on standard error and exit code 2.

use std::process::ExitCode;

use metrale_replay::options::{self, NoOptions, Options};
use metrale_replay::plan::{self, Timing};
use metrale_replay::progress::Progress;
use metrale_replay::report::{count, time};
use metrale_replay::steps::Patterns;
use metrale_replay::trace::{self, Limits, Trace};
use metrale_replay::{model, workload};

fn main() -> ExitCode {
    let options = match options::parse(std::env::args_os().skip(1).collect()) {
        Ok(options) => options,
        Err(NoOptions::Help(text)) => {
            println!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(NoOptions::Wrong(line)) => return fail(&line),
    };
    match load(&options) {
        Ok(trace) => {
            summary(&trace, &options);
            ExitCode::SUCCESS
        }
        Err(line) => fail(&line),
    }
}

fn fail(line: &str) -> ExitCode {
    eprintln!("metrale-replay: {line}");
    ExitCode::from(2)
}

fn load(options: &Options) -> Result<Trace, String> {
    let Some(path) = &options.trace else {
        return Ok(workload::builtin().trace);
    };
    let mut progress = Progress::new("reading");
    trace::read(path, &Limits::default(), &mut |done, all| {
        progress.at(done, all)
    })
    .map_err(|error| format!("{}: {error}", path.display()))
}

/// What would be replayed.
fn summary(trace: &Trace, options: &Options) {
    let timing = match options.stamps {
        Some(options::Stamps::Honest) => Timing::Honest,
        _ => Timing::Ideal,
    };
    let plan = plan::build(trace, &Patterns::new(options.step_patterns.clone()), timing);
    let outcome = model::run(&plan);
    let (launches, in_graphs) = plan.graph_totals();
    println!(
        "{} steps, {} lane spans, {} kernels, {} graph launches of {} kernels, {}",
        count(plan.steps.len() as u64),
        count(plan.spans.len() as u64),
        count(plan.kernels.len() as u64),
        count(launches),
        count(in_graphs),
        time(outcome.length_ns)
    );
    for note in &plan.notes {
        println!("note: {note}");
    }
}
