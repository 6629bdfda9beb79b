// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated driver's whole state, behind one lock, and the lookups that
//! every call begins with.
//!
//! A lookup decides what a bad handle gives: NULL its documented status, a
//! handle that names nothing 400 and a stroke on the count of stale uses (the
//! real driver dereferences it), an object of a context that met a sticky
//! error that error.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use metrale_gpu_sys::cuda::Status;

use crate::capture::Capture;
use crate::clock::Clock;
use crate::config::Config;
use crate::event::Event;
use crate::exec::Exec;
use crate::faults::Faults;
use crate::graph::Graph;
use crate::handles::Table;
use crate::host::Host;
use crate::log::Log;
use crate::memory::Memory;
use crate::module::{Function, Library, LibraryKernel, Module};
use crate::stream::Stream;
use crate::symbols::Symbol;
use crate::thread::Thread;
use crate::user_object::{Callback, UserObject};
use crate::watch::{self, Watch};

/// What every simulated call comes to.
pub(crate) type Outcome = Result<(), Status>;

/// How far `cuInit` got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Init {
    NotYet,
    Failed,
    Done,
}

/// A context. Its streams, events, modules and graphs name it by handle and go
/// with it.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: i32,
    /// Unique for ever, unlike the handle.
    pub(crate) id: u64,
    pub(crate) is_primary: bool,
    /// The status that every later call returns; success while all is well.
    pub(crate) sticky: Status,
    /// The stream behind NULL and `CU_STREAM_LEGACY`.
    pub(crate) legacy: u64,
    /// The streams behind `CU_STREAM_PER_THREAD`, by thread number.
    pub(crate) per_thread: Vec<(u64, u64)>,
}

/// A device's primary context and how often it is retained.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Primary {
    pub(crate) context: u64,
    pub(crate) retained: u64,
}

/// Numbers that are never used twice, not even after a reset.
#[derive(Debug)]
pub(crate) struct Ids {
    pub(crate) context: u64,
    pub(crate) stream: u64,
    pub(crate) capture: u64,
    pub(crate) graph: u64,
    /// Of host functions and of waits.
    pub(crate) ticket: u64,
}

#[derive(Debug)]
pub(crate) struct World {
    /// Counts resets; a thread that lags forgets its own state.
    pub(crate) epoch: u64,
    pub(crate) ids: Ids,
    pub(crate) init: Init,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    /// What the current call still has to wait for, without the lock.
    pub(crate) waiting: Option<u64>,
    pub(crate) primaries: Vec<Primary>,
    pub(crate) contexts: Table<Context>,
    pub(crate) streams: Table<Stream>,
    pub(crate) events: Table<Event>,
    pub(crate) modules: Table<Module>,
    pub(crate) functions: Table<Function>,
    pub(crate) libraries: Table<Library>,
    pub(crate) kernels: Table<LibraryKernel>,
    pub(crate) graphs: Table<Graph>,
    pub(crate) execs: Table<Exec>,
    pub(crate) objects: Table<UserObject>,
    pub(crate) host: Host,
    /// Destructors that the current call still has to run, without the lock.
    pub(crate) destructors: Vec<Callback>,
    pub(crate) watch: Watch,
    pub(crate) captures: Vec<Capture>,
    pub(crate) memory: Memory,
    pub(crate) stale_uses: u64,
    pub(crate) calls: u64,
    pub(crate) counts: [u64; Symbol::COUNT],
    pub(crate) log: Log,
    pub(crate) faults: Faults,
}

static WORLD: Mutex<World> = Mutex::new(World::new());

/// Whether the driver was initialised: `NOT_YET`, `HERE`, or `BEFORE_FORK`, in the process
/// that this one was forked from. Kept by a handler of forks, so that a call makes no
/// system call, as a driver's makes none.
static INITIALISED: AtomicU32 = AtomicU32::new(NOT_YET);
const NOT_YET: u32 = 0;
const HERE: u32 = 1;
#[cfg(unix)]
const BEFORE_FORK: u32 = 2;

/// Takes the lock. A panic while it was held does not matter: the call answered
/// 999 and the state is still a state.
pub(crate) fn lock() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this process is a forked child of the one that initialised the
/// driver. Asked before the lock is taken: the parent may have held it.
pub(crate) fn is_forked_child() -> bool {
    INITIALISED.load(Ordering::Relaxed) > HERE
}

pub(crate) fn set_initialised(done: bool) {
    #[cfg(unix)]
    watch_forks();
    INITIALISED.store(if done { HERE } else { NOT_YET }, Ordering::Relaxed);
}

#[cfg(unix)]
fn watch_forks() {
    extern "C" fn in_child() {
        let (own, other) = (HERE, BEFORE_FORK);
        let _ = INITIALISED.compare_exchange(own, other, Ordering::Relaxed, Ordering::Relaxed);
    }
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only writes an atomic, which is allowed after a fork.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

impl World {
    const fn new() -> Self {
        Self {
            epoch: 1,
            ids: Ids { context: 0, stream: 0, capture: 0, graph: 0, ticket: 0 },
            init: Init::NotYet,
            config: Config::new(),
            clock: Clock::new(),
            waiting: None,
            primaries: Vec::new(),
            contexts: Table::new(0x5600_c000_0000),
            streams: Table::new(0x5601_5000_0000),
            events: Table::new(0x5602_e000_0000),
            modules: Table::new(0x5603_d000_0000),
            functions: Table::new(0x5604_f000_0000),
            libraries: Table::new(0x5608_1000_0000),
            kernels: Table::new(0x5609_4000_0000),
            graphs: Table::new(0x5605_6000_0000),
            execs: Table::new(0x5606_7000_0000),
            objects: Table::new(0x5607_b000_0000),
            host: Host::new(),
            destructors: Vec::new(),
            watch: Watch::new(),
            captures: Vec::new(),
            memory: Memory::new(),
            stale_uses: 0,
            calls: 0,
            counts: [0; Symbol::COUNT],
            log: Log::new(),
            faults: Faults::new(),
        }
    }

    /// A new world as of a process's start. Ids, thread numbers and a host function that runs
    /// go on.
    pub(crate) fn reset(&mut self) {
        let host = std::mem::replace(&mut self.host, Host::new());
        let fresh = Self { epoch: self.epoch + 1, ids: Ids { ..self.ids }, host, ..Self::new() };
        *self = fresh;
        set_initialised(false);
        watch::forget_shared_uses();
    }

    /// 3 unless `cuInit` succeeded.
    pub(crate) fn ready(&self) -> Outcome {
        match self.init {
            Init::Done => Ok(()),
            Init::NotYet | Init::Failed => Err(Status::ERROR_NOT_INITIALIZED),
        }
    }

    /// Notes the use of a handle that names nothing.
    pub(crate) const fn stale(&mut self) -> Status {
        self.stale_uses += 1;
        Status::ERROR_INVALID_HANDLE
    }

    /// The sticky error of a context, if it met one.
    pub(crate) fn healthy(&self, context: u64) -> Outcome {
        match self.contexts.get(context) {
            Some(found) => found.sticky.ok(),
            None => Err(Status::ERROR_CONTEXT_IS_DESTROYED),
        }
    }

    /// The calling thread's context: 201 without one, 709 if it was destroyed.
    pub(crate) fn current(&self, thread: Thread) -> Result<u64, Status> {
        self.ready()?;
        match thread.context() {
            0 => Err(Status::ERROR_INVALID_CONTEXT),
            context => self.healthy(context).map(|()| context),
        }
    }

    /// A live context by handle; NULL and unknown ones give 201.
    pub(crate) fn context(&mut self, handle: u64) -> Result<&mut Context, Status> {
        self.ready()?;
        if handle != 0 && self.contexts.get(handle).is_none() {
            self.stale();
        }
        self.contexts.get_mut(handle).ok_or(Status::ERROR_INVALID_CONTEXT)
    }

    /// The context of a live event: NULL gives 400, even before `cuInit`.
    pub(crate) fn event_context(&mut self, handle: u64) -> Result<u64, Status> {
        if handle == 0 {
            return Err(Status::ERROR_INVALID_HANDLE);
        }
        self.ready()?;
        let found = self.events.find(handle, Status::ERROR_INVALID_HANDLE, &mut self.stale_uses);
        found.map(|event| event.context)
    }

    /// The key of the stream that a handle means to this thread: NULL is the
    /// legacy stream, or the per-thread one in the `_ptsz` twins.
    pub(crate) fn stream_key(
        &mut self,
        thread: Thread,
        handle: u64,
        per_thread: bool,
    ) -> Result<u64, Status> {
        let key = match (handle, per_thread) {
            (0 | crate::stream::LEGACY, false) | (crate::stream::LEGACY, true) => {
                let context = self.current(thread)?;
                self.context(context)?.legacy
            }
            (0, true) | (crate::stream::PER_THREAD, _) => {
                let context = self.current(thread)?;
                self.per_thread_stream(context, thread)?
            }
            _ => handle,
        };
        self.ready()?;
        let found = self.streams.find(key, Status::ERROR_INVALID_HANDLE, &mut self.stale_uses)?;
        let context = found.context;
        self.healthy(context).map(|()| key)
    }

    fn per_thread_stream(&mut self, context: u64, thread: Thread) -> Result<u64, Status> {
        let found = self.context(context)?;
        if let Some((_, key)) = found.per_thread.iter().find(|(id, _)| *id == thread.id) {
            return Ok(*key);
        }
        let key = self.new_stream(context, true, 0);
        self.context(context)?.per_thread.push((thread.id, key));
        Ok(key)
    }

    /// The stream behind a key that [`World::stream_key`] gave.
    pub(crate) fn stream(&mut self, key: u64) -> Result<&mut Stream, Status> {
        self.streams.get_mut(key).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    /// Makes a context on a device, with its legacy stream.
    pub(crate) fn new_context(&mut self, device: i32, is_primary: bool) -> u64 {
        self.ids.context += 1;
        let context = self.contexts.insert(Context {
            device,
            id: self.ids.context,
            is_primary,
            sticky: Status::SUCCESS,
            legacy: 0,
            per_thread: Vec::new(),
        });
        let legacy = self.new_stream(context, true, 0);
        if let Some(made) = self.contexts.get_mut(context) {
            made.legacy = legacy;
        }
        if let Some(stream) = self.streams.get_mut(legacy) {
            stream.is_legacy = true;
        }
        context
    }

    /// Destroys a context and all that belongs to it.
    pub(crate) fn destroy_context(&mut self, context: u64) {
        self.forget_calls(context);
        for key in self.streams.handles_where(|s| s.context == context).iter().rev() {
            self.streams.remove(*key);
        }
        for event in self.events.handles_where(|e| e.context == context).iter().rev() {
            self.events.remove(*event);
        }
        for module in self.modules.handles_where(|m| m.context == context).iter().rev() {
            self.unload(*module);
        }
        self.forget_modules(context);
        let doomed: Vec<u64> =
            self.captures.iter().filter(|c| c.context == context).map(|c| c.graph).collect();
        self.captures.retain(|capture| capture.context != context);
        for graph in doomed {
            self.remove_graph(graph);
        }
        self.memory.free_context(context);
        self.contexts.remove(context);
    }
}
