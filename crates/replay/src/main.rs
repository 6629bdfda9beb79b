// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command: reads the arguments, replays, and says what came of it.
//!
//! Invariant: an error is one line on standard error; exit code 2 for what the
//! caller can mend, 1 where the driver fails a replay.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use metrale_http::{Pages, Server, Traces};
use metrale_replay::file::write_whole;
use metrale_replay::options::{self, NoOptions, Options};
use metrale_replay::plan::{self, Timing};
use metrale_replay::play::{PlayError, Playing, Settings};
use metrale_replay::progress::Progress;
use metrale_replay::report::{render, write_json};
use metrale_replay::steps::Patterns;
use metrale_replay::trace::{self, Limits, Trace, TraceError};
use metrale_replay::{driver, workload};

/// Columns of the result.
const WIDTH: usize = 80;
/// The trace's path that stands for standard input.
const STDIN: &str = "-";

fn main() -> ExitCode {
    let options = match options::parse(std::env::args_os().skip(1).collect()) {
        Ok(options) => options,
        Err(NoOptions::Help(text)) => {
            say(&format!("{text}\n"));
            return ExitCode::SUCCESS;
        }
        Err(NoOptions::Wrong(line)) => return fail(2, line),
    };
    let running = match driver::choose(&options) {
        Ok(running) => running,
        Err(error) => return fail(2, error),
    };
    let server = match options.serve.map(Server::bind).transpose() {
        Ok(server) => server,
        Err(error) => return fail(2, format!("--serve: the port cannot be had: {error}")),
    };
    let read_from = options.trace.as_deref().map(|path| match path.to_str() {
        Some(STDIN) => "standard input".to_owned(),
        _ => path.display().to_string(),
    });
    let trace = match load(options.trace.as_deref()) {
        Ok(trace) => trace,
        Err(error) => return fail(2, format!("{}: {error}", read_from.unwrap_or_default())),
    };
    let timing = options.stamps.unwrap_or(Timing::Honest);
    let Options {
        every,
        twins,
        json,
        timeline,
        record_steps,
        step_patterns,
        lanes,
        serve_for,
        stuck_after,
        ..
    } = options;
    let plan = plan::build(&trace, &Patterns::new(step_patterns, lanes), timing);
    drop(trace);
    let settings = Settings { every, twins, timing, trace: read_from };
    let playing = match Playing::new(&plan, &running, settings) {
        Ok(playing) => playing,
        // The trace asks for more than there can be.
        Err(error @ PlayError::Devices(_)) => return fail(2, error),
        Err(error) => return fail(1, error),
    };
    if let Some(steps) = record_steps
        && let Err(error) = (playing.telemetry().iter()).try_for_each(|of| of.record_steps(steps))
    {
        return fail(2, error);
    }
    let report = match playing.once() {
        Ok(report) => report,
        Err(error) => return fail(1, error),
    };
    say(&render(&report, WIDTH));
    if let Some(path) = json
        && let Err(error) = write_whole(&path, |out| write_json(out, &report))
    {
        return fail(2, error);
    }
    if let Some(path) = timeline {
        let of = playing.telemetry();
        let traces = Traces::recorded(of).unwrap_or_else(|| Traces::last(of));
        if let Err(error) = write_whole(&path, |out| traces.write(out)) {
            return fail(2, error);
        }
    }
    match server.map(|server| serve(server, &playing, serve_for, stuck_after)) {
        Some(Err(error)) => fail(1, error),
        Some(Ok(())) | None => ExitCode::SUCCESS,
    }
}

/// Repeats the replay and serves what is measured.
fn serve(
    server: Server,
    playing: &Playing<'_>,
    serve_for: Option<Duration>,
    stuck_after: Duration,
) -> Result<(), Box<dyn std::error::Error>> {
    let address = server.address()?;
    let pages = Pages::new(playing.telemetry().iter().copied()).stuck_after(stuck_after);
    server.start(pages.router())?;
    say(&format!(
        "serving   http://{address}/ and /snapshot.json, /trace.json, /metrics, /healthz\n"
    ));
    let until = serve_for.and_then(|time| Instant::now().checked_add(time));
    Ok(playing.repeat(until)?)
}

/// Writes to standard output. A reader that went away wants no more of it, as
/// `head` does; JSON is written and pages are served all the same.
fn say(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn fail(code: u8, line: impl std::fmt::Display) -> ExitCode {
    eprintln!("metrale-replay: {line}");
    ExitCode::from(code)
}

fn load(path: Option<&Path>) -> Result<Trace, TraceError> {
    let Some(path) = path else {
        return Ok(workload::builtin().trace);
    };
    let limits = Limits::default();
    if path == Path::new(STDIN) {
        return trace::read_stream(std::io::stdin(), &limits);
    }
    let mut progress = Progress::new("reading");
    trace::read(path, &limits, &mut |done, all| progress.at(done, all))
}
