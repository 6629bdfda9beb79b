// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a script's steps: one after another, on two threads that are new for
//! each script, and cleans up after it.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::Difference;
use super::driver::{Called, Calls};
use super::graph_steps;
use super::parse::{Line, steps};

/// A kernel that spins for as many nanoseconds as its argument says. The
/// simulator reads only the parameter's name; a real device runs it.
pub(super) const SPIN: &std::ffi::CStr = c"
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 spin_duration_ns)
{
    .reg .u64 %rd<5>;
    .reg .pred %p1;
    ld.param.u64 %rd1, [spin_duration_ns];
    mov.u64 %rd2, %globaltimer;
again:
    mov.u64 %rd3, %globaltimer;
    sub.u64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p1, %rd4, %rd1;
    @%p1 bra again;
    ret;
}
";

/// What a name stands for; cleaned up from the last to the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Context,
    Module,
    Function,
    Stream,
    Event,
    Graph,
    Node,
    Exec,
    Memory,
}

#[derive(Default)]
pub(super) struct Bindings<'a> {
    handles: BTreeMap<(Object, &'a str), u64>,
    retained: u32,
}

/// The status and, where the step tells one, a value in words.
pub(super) type Answer = (u32, Option<String>);

/// Why a step has no answer.
pub(super) enum Trouble {
    /// The driver lacks a function.
    Missing(&'static str),
    /// The step is no step.
    Malformed,
}

impl From<&'static str> for Trouble {
    fn from(name: &'static str) -> Self {
        Self::Missing(name)
    }
}

/// Whether the host functions of scripts return, one script at a time.
static RELEASED: Mutex<bool> = Mutex::new(false);
static CHANGED: Condvar = Condvar::new();

fn set_released(released: bool) {
    *RELEASED.lock().unwrap_or_else(PoisonError::into_inner) = released;
    CHANGED.notify_all();
}

/// A host function. Should a script forget it, it returns all the same.
extern "C" fn until_released(_: *mut c_void) {
    let released = RELEASED.lock().unwrap_or_else(PoisonError::into_inner);
    let waited =
        CHANGED.wait_timeout_while(released, Duration::from_secs(10), |released| !*released);
    drop(waited);
}

pub(super) fn run(driver: &Calls<'_>, text: &str) -> Vec<Difference> {
    set_released(false);
    let mut differences = Vec::new();
    thread::scope(|scope| {
        let first = worker(scope, driver);
        let second = worker(scope, driver);
        let mut names = Bindings::default();
        for (line, text, step) in steps(text) {
            let found = match step {
                None => Some("is no step".to_owned()),
                Some(step) => {
                    let thread = if step.is_on_second_thread { &second } else { &first };
                    let (back, answer) = thread.run(Job::Line(step.clone(), names));
                    names = back;
                    difference(&step, answer)
                }
            };
            if let Some(found) = found {
                let (call, expected) = text.split_once("->").unwrap_or((text, "0"));
                differences.push(Difference {
                    line,
                    call: call.trim().to_owned(),
                    expected: expected.trim().to_owned(),
                    found,
                });
            }
        }
        set_released(true);
        // Best effort: whatever fails here was left in ruins above.
        let _second = second.run(Job::CleanUp(Bindings::default()));
        let _first = first.run(Job::CleanUp(names));
    });
    differences
}

fn difference(step: &Line<'_>, answer: Result<Answer, Trouble>) -> Option<String> {
    match answer {
        Err(Trouble::Malformed) => Some("is no step, or uses an unbound name".to_owned()),
        Err(Trouble::Missing(name)) => Some(format!("the driver has no {name}")),
        Ok((status, _)) if !step.statuses.contains(&status) => Some(format!("answered {status}")),
        Ok((_, value)) => {
            let expected = step.value?;
            let value = value.unwrap_or_else(|| "nothing".to_owned());
            let is_met = match expected.strip_prefix(">=") {
                None => value == expected,
                Some(least) => matches!(
                    (value.parse::<u64>(), least.parse::<u64>()),
                    (Ok(value), Ok(least)) if value >= least
                ),
            };
            (!is_met).then(|| format!("told {value}"))
        }
    }
}

enum Job<'a> {
    Line(Line<'a>, Bindings<'a>),
    CleanUp(Bindings<'a>),
}

type Done<'a> = (Bindings<'a>, Result<Answer, Trouble>);

/// A thread that does one job at a time; it ends when this is dropped.
struct Worker<'a> {
    jobs: Sender<Job<'a>>,
    done: Receiver<Done<'a>>,
}

impl<'a> Worker<'a> {
    fn run(&self, job: Job<'a>) -> Done<'a> {
        // Neither end goes away before the other unless the worker panicked,
        // and then the scope panics too.
        if self.jobs.send(job).is_err() {
            return (Bindings::default(), Err(Trouble::Malformed));
        }
        let done = self.done.recv();
        done.unwrap_or_else(|_| (Bindings::default(), Err(Trouble::Malformed)))
    }
}

fn worker<'scope, 'a: 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    driver: &'scope Calls<'scope>,
) -> Worker<'a> {
    let (jobs, inbox) = channel::<Job<'a>>();
    let (outbox, done) = channel();
    scope.spawn(move || {
        for job in inbox {
            let finished = match job {
                Job::Line(step, mut names) => {
                    let answer = act(driver, &step, &mut names);
                    (names, answer)
                }
                Job::CleanUp(names) => {
                    let outcome = clean_up(driver, &names);
                    let answer = outcome.map(|()| (0, None)).map_err(Trouble::Missing);
                    (Bindings::default(), answer)
                }
            };
            if outbox.send(finished).is_err() {
                return;
            }
        }
    });
    Worker { jobs, done }
}

fn clean_up(driver: &Calls<'_>, names: &Bindings<'_>) -> Called<()> {
    driver.mode(0)?;
    for ((kind, _), handle) in names.handles.iter().rev() {
        match kind {
            Object::Memory => driver.free(*handle)?,
            Object::Exec => driver.destroy_exec(*handle)?,
            Object::Graph => driver.destroy_graph(*handle)?,
            Object::Event => driver.destroy_event(*handle)?,
            Object::Stream => driver.destroy_stream(*handle)?,
            Object::Function | Object::Node => continue,
            Object::Module => driver.unload(*handle)?,
            Object::Context => driver.destroy_context(*handle)?,
        };
    }
    for _ in 0..names.retained {
        driver.release(0)?;
    }
    Ok(())
}

impl<'a> Bindings<'a> {
    pub(super) fn find(&self, kind: Object, name: &str) -> Result<u64, Trouble> {
        match (kind, name) {
            (_, "NULL") => return Ok(0),
            (Object::Stream, "LEGACY") => return Ok(1),
            (Object::Stream, "PER_THREAD") => return Ok(2),
            _ => {}
        }
        let found = self.handles.get(&(kind, name)).copied();
        found.ok_or(Trouble::Malformed)
    }

    /// Keeps an object under a name if the call that makes it succeeded.
    pub(super) fn keep(
        &mut self,
        kind: Object,
        name: &'a str,
        (status, handle): (u32, u64),
    ) -> Answer {
        if status == 0 {
            self.handles.insert((kind, name), handle);
        }
        (status, None)
    }

    /// Takes an object out that is destroyed.
    pub(super) fn drop(&mut self, kind: Object, name: &'a str) -> Result<u64, Trouble> {
        let handle = self.find(kind, name)?;
        self.handles.remove(&(kind, name));
        Ok(handle)
    }
}

fn one_of(word: &str, words: &[&str]) -> Result<u32, Trouble> {
    let place = words.iter().position(|known| *known == word);
    let place = place.and_then(|place| u32::try_from(place).ok());
    place.ok_or(Trouble::Malformed)
}

const MODES: [&str; 3] = ["global", "local", "relaxed"];
const CAPTURING: [&str; 3] = ["none", "active", "invalidated"];

fn in_words((status, number): (u32, u32), words: &[&str]) -> Answer {
    let place = usize::try_from(number).ok();
    let word = place.and_then(|place| words.get(place));
    (status, Some(word.map_or_else(|| number.to_string(), ToString::to_string)))
}

/// Makes the step's call.
fn act<'a>(
    driver: &Calls<'_>,
    step: &Line<'a>,
    names: &mut Bindings<'a>,
) -> Result<Answer, Trouble> {
    use Object::{Context, Event, Exec, Function, Graph, Memory, Module, Stream};
    let status = match (step.verb, &*step.arguments) {
        ("context", []) => {
            let status = driver.init(0)?;
            if status != 0 {
                return Ok((status, None));
            }
            let (status, context) = driver.retain(0)?;
            if status != 0 {
                return Ok((status, None));
            }
            names.retained += 1;
            driver.set_current(context)?
        }
        ("new-context", [c]) => return Ok(names.keep(Context, c, driver.create_context(0)?)),
        ("destroy-context", [c]) => driver.destroy_context(names.drop(Context, c)?)?,
        ("use", [c]) => driver.set_current(names.find(Context, c)?)?,
        ("stream", [s, kind]) => {
            let flags = one_of(kind, &["blocking", "nonblocking"])?;
            return Ok(names.keep(Stream, s, driver.create_stream(flags)?));
        }
        ("event", [e, kind]) => {
            let flags = one_of(kind, &["timed", "untimed"])? * 2;
            return Ok(names.keep(Event, e, driver.create_event(flags)?));
        }
        ("module", [m, text]) => {
            let text = match one_of(text, &["spin", "garbage"])? {
                0 => SPIN,
                _ => c"garbage",
            };
            return Ok(names.keep(Module, m, driver.load(text)?));
        }
        ("function", [f, m]) => {
            let found = driver.function(names.find(Module, m)?, c"spin")?;
            return Ok(names.keep(Function, f, found));
        }
        ("function", [f, m, "absent"]) => {
            let found = driver.function(names.find(Module, m)?, c"absent")?;
            return Ok(names.keep(Function, f, found));
        }
        ("launch", [f, s, ns]) => {
            let ns = ns.parse().map_err(|_| Trouble::Malformed)?;
            driver.launch(names.find(Function, f)?, names.find(Stream, s)?, ns)?
        }
        ("record", [e, s]) => driver.record(names.find(Event, e)?, names.find(Stream, s)?)?,
        ("record-external", [e, s]) => {
            driver.record_flags(names.find(Event, e)?, names.find(Stream, s)?, 1)?
        }
        ("query", [e]) => driver.query(names.find(Event, e)?)?,
        ("sync-event", [e]) => driver.sync_event(names.find(Event, e)?)?,
        ("elapsed", [a, b]) => {
            let (status, ms) = driver.elapsed(names.find(Event, a)?, names.find(Event, b)?)?;
            let ns = (f64::from(ms) * 1e6).round();
            return Ok((status, Some(format!("{ns}"))));
        }
        ("wait", [s, e]) => driver.wait_event(names.find(Stream, s)?, names.find(Event, e)?, 0)?,
        ("sync-stream", [s]) => driver.sync_stream(names.find(Stream, s)?)?,
        ("query-stream", [s]) => driver.query_stream(names.find(Stream, s)?)?,
        ("sync-context", []) => driver.sync_context()?,
        ("begin", [s, mode]) => driver.begin(names.find(Stream, s)?, one_of(mode, &MODES)?)?,
        ("end", [s, g]) => {
            let (status, graph) = driver.end(names.find(Stream, s)?)?;
            let is_null = Some(if graph == 0 { "NULL" } else { "graph" }.to_owned());
            names.keep(Graph, g, (status, graph));
            return Ok((status, is_null));
        }
        ("capturing", [s]) => {
            return Ok(in_words(driver.capturing(names.find(Stream, s)?)?, &CAPTURING));
        }
        ("info", [s]) => return Ok(in_words(driver.info(names.find(Stream, s)?)?, &CAPTURING)),
        ("mode", [mode]) => return Ok(in_words(driver.mode(one_of(mode, &MODES)?)?, &MODES)),
        ("instantiate", [x, g]) => {
            let made = driver.instantiate(names.find(Graph, g)?)?;
            return Ok(names.keep(Exec, x, made));
        }
        ("launch-graph", [x, s]) => {
            driver.launch_graph(names.find(Exec, x)?, names.find(Stream, s)?)?
        }
        ("nodes", [g]) => {
            let (status, nodes) = driver.nodes(names.find(Graph, g)?)?;
            return Ok((status, Some(nodes.to_string())));
        }
        ("host", [s]) => {
            driver.host_function(names.find(Stream, s)?, until_released, null_mut())?
        }
        ("release", []) => {
            set_released(true);
            0
        }
        ("stream-id", [s]) => driver.stream_id(names.find(Stream, s)?)?.0,
        ("stream-context", [s]) => driver.stream_context(names.find(Stream, s)?)?.0,
        ("alloc", [p]) => return Ok(names.keep(Memory, p, driver.alloc(1024)?)),
        ("free", [p]) => driver.free(names.drop(Memory, p)?)?,
        ("destroy-event", [e]) => driver.destroy_event(names.drop(Event, e)?)?,
        ("destroy-stream", [s]) => driver.destroy_stream(names.drop(Stream, s)?)?,
        ("destroy-graph", [g]) => driver.destroy_graph(names.drop(Graph, g)?)?,
        ("destroy-exec", [x]) => driver.destroy_exec(names.drop(Exec, x)?)?,
        ("unload", [m]) => driver.unload(names.drop(Module, m)?)?,
        ("pass", [ns]) => {
            driver.pass(ns.parse().map_err(|_| Trouble::Malformed)?);
            0
        }
        _ => return graph_steps::act(driver, step, names),
    };
    Ok((status, None))
}
