// SPDX-License-Identifier: MIT OR Apache-2.0
//! The application of a sequence, at work on the simulated driver, with or
//! without a guest.
//!
//! 1. What it does next depends on the sequence and on what the driver told it,
//!    never on the guest.
//! 2. It uses live handles only, and does what a guest's host must: guests of a
//!    context leave before it goes, functions are forgotten before they are
//!    unloaded, a span ends on a stream that lives.
//! 3. All that it sees goes into the trace, handles by order of creation.
//! 4. Between two of its own calls the log is empty, so that what a guest
//!    called is what the log holds when the guest returns.

/// Calls the driver for the machine, as `cu` does for anybody.
macro_rules! call {
    ($machine:expr, $name:literal $(, $arg:expr => $kind:ty)*) => {{
        let is_faulted = $machine.set_fault($name);
        let status = metrale_gpu_sim::cu!($name $(, $arg => $kind)*);
        $machine.called($name, status, is_faulted)
    }};
}

mod actions;
mod contexts;
mod end;
mod events;
mod graphs;
mod memory;
mod modules;
mod spans;
mod streams;
mod window;

pub use actions::Action;
pub(crate) use actions::DRAWN;
pub(crate) use end::LATER_NS;

use crate::follow::Events;
use crate::guest::{Guest, Mistake, Stream};
use crate::sequence::{Operation, Setup, THREADS, Trouble};
use crate::tally::Tally;
use metrale_gpu_sim::control;
use metrale_gpu_sys::cuda::Status;
use std::sync::atomic::AtomicU8;

/// Bytes of every buffer.
const BYTES: usize = 64;
/// Objects of a kind that live at once.
const MAX_OBJECTS: usize = 12;

/// Something that the application saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// In which operation; those after the last are the end.
    pub operation: usize,
    /// On which thread.
    pub thread: usize,
    /// The driver function, or what was looked at.
    pub what: &'static str,
    /// What it returned.
    pub status: u32,
    /// What it told.
    pub value: u64,
    /// The clock after it, ns.
    pub now_ns: u64,
}

#[derive(Clone, Copy)]
struct Context {
    handle: u64,
    /// Its place among the devices.
    device: usize,
    is_primary: bool,
    /// A graph may use an event of it: it stays.
    is_pinned: bool,
}

#[derive(Clone, Copy, Default)]
struct Owned {
    handle: u64,
    context: u64,
    is_blocking: bool,
    /// Tells it from another with its handle.
    serial: u64,
}

impl Owned {
    fn at(self) -> Stream {
        Stream { handle: self.handle, context: self.context }
    }
}

struct Event {
    handle: u64,
    context: u64,
    is_timed: bool,
    /// A graph may use it: it stays.
    is_pinned: bool,
}

struct Module {
    handle: u64,
    context: u64,
    functions: Vec<u64>,
}

/// A guest's place; it may be empty, but is there in both runs.
struct Installed {
    id: u64,
    context: u64,
    guest: Option<Guest>,
    /// Streams that spans were ended on, by ring, since it was empty.
    ended_on: [Vec<(u64, usize)>; 2],
    events: Events,
}

#[derive(Default)]
pub(crate) struct Machine {
    setup: Setup,
    /// Whether there are guests, and their mistake.
    guests: Option<Mistake>,
    pub(crate) operation: usize,
    /// The thread that runs it now.
    pub(crate) thread: usize,
    fault: Option<u32>,
    trouble: Option<Trouble>,
    serial: u64,
    modes: [u32; THREADS],
    pushes: [u32; THREADS],
    contexts: Vec<Context>,
    streams: Vec<Owned>,
    events: Vec<Event>,
    modules: Vec<Module>,
    graphs: Vec<u64>,
    execs: Vec<u64>,
    /// Streams that captures were begun on, and not ended.
    capturing: Vec<u64>,
    memory: Vec<u64>,
    /// Atomics, as the driver writes them behind the compiler's back.
    host: Box<[[AtomicU8; BYTES]]>,
    installed: Vec<Installed>,
    spans: Vec<spans::Span>,
    over: Vec<spans::Span>,
    pub(crate) trace: Vec<Seen>,
    /// The rules that guests broke, and in which operation.
    pub(crate) broken: Vec<String>,
    pub(crate) tally: Tally,
}

/// What `choice` means among `all`.
fn pick<T>(all: &[T], choice: u8) -> Option<&T> {
    all.get(usize::from(choice).checked_rem(all.len())?)
}

impl Machine {
    pub(crate) fn new(setup: Setup, guests: Option<Mistake>) -> Self {
        let buffer = || [const { AtomicU8::new(0) }; BYTES];
        let host = (0..4).map(|_| buffer()).collect();
        Self { setup, guests, host, ..Self::default() }
    }

    /// Threads of the application.
    pub(crate) fn threads(&self) -> usize {
        usize::from(self.setup.threads).clamp(1, THREADS)
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Performs an operation, on the thread that it is of.
    pub(crate) fn perform(&mut self, number: usize, operation: &Operation) {
        self.operation = number;
        self.fault = operation.fault;
        self.trouble = operation.trouble;
        self.act(operation);
        self.fault = None;
        self.trouble = None;
    }

    /// A driver call of the application's comes, by the macro `call`; whether it is to
    /// fail.
    fn set_fault(&mut self, name: &'static str) -> bool {
        let fault = self.fault.take();
        fault.inspect(|status| fail_next(name, *status, 0)).is_some()
    }

    /// It has returned.
    fn called(&mut self, name: &'static str, status: Status, is_faulted: bool) -> Status {
        if is_faulted {
            control::clear_faults();
        }
        self.tally.count("called", name, 1);
        match status.is_success() {
            true => self.tally.count("succeeded", name, 1),
            false => self.tally.count("status", status.0, 1),
        }
        self.see(name, status.0, 0);
        status
    }

    fn see(&mut self, what: &'static str, status: u32, value: u64) {
        let (operation, thread, now_ns) = (self.operation, self.thread, control::now_ns());
        self.trace.push(Seen { operation, thread, what, status, value, now_ns });
    }

    fn broke(&mut self, what: String) {
        self.broken.push(format!("operation {}: {what}", self.operation));
    }
}

/// The next call of that name by this thread, after `skip`, returns `status`.
fn fail_next(call: &str, status: u32, skip: u64) {
    let fault = control::Fault {
        call,
        status: Status(status),
        skip_first: skip,
        count: 1,
        this_thread_only: true,
    };
    control::fault(fault).expect("the simulator exports what is called");
}
