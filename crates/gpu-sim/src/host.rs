// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of the host in streams and graphs.
//!
//! A function begins once the clock has reached its place and what comes before is done, on a
//! thread of the driver's own, one at a time, without the world's lock. What comes after it waits
//! for its return: a [`Moment`] that is behind it is not known until then. The clock goes on
//! meanwhile, and a function takes what the clock moved while it ran: nothing in virtual time,
//! unless another thread moves it.
//!
//! The thread is there as long as there are functions that have not returned.

use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

use metrale_gpu_sys::cuda::Status;

use crate::event::State;
use crate::moment::Moment;
use crate::thread::Thread;
use crate::user_object::Callback;
use crate::world::{self, Outcome, World};

/// A function that has not returned.
#[derive(Debug)]
struct HostCall {
    id: u64,
    context: u64,
    start: Moment,
    callback: Callback,
    has_begun: bool,
}

#[derive(Debug)]
pub(crate) struct Host {
    calls: Vec<HostCall>,
    has_worker: bool,
    /// Moments that callers wait for, by number.
    waits: Vec<(u64, Moment)>,
}

impl Host {
    pub(crate) const fn new() -> Self {
        Self { calls: Vec::new(), has_worker: false, waits: Vec::new() }
    }

    /// Of the functions that `is_meant` picks the one that begins first, or has begun.
    fn next(&self, is_meant: impl Fn(&HostCall) -> bool) -> Option<&HostCall> {
        let known = self.calls.iter().filter(|call| call.start.is_known() && is_meant(call));
        known.min_by_key(|call| (call.start.earliest(), call.id))
    }
}

/// With the world's lock: a function came or returned, or the clock moved while somebody waited.
static CHANGED: Condvar = Condvar::new();

impl World {
    /// Gives a function its place: it begins at `start`. The moment of its return.
    pub(crate) fn call_host(
        &mut self,
        context: u64,
        start: Moment,
        callback: Callback,
    ) -> Result<Moment, Status> {
        if !self.host.has_worker {
            let thread = std::thread::Builder::new().name("host functions".to_owned());
            thread.spawn(work).map_err(|_| Status::ERROR_OPERATING_SYSTEM)?;
            self.host.has_worker = true;
        }
        self.ids.ticket += 1;
        let id = self.ids.ticket;
        let end = start.clone().until_return_of(id);
        self.host.calls.push(HostCall { id, context, start, callback, has_begun: false });
        Ok(end)
    }

    /// Makes the current call wait: at once where only virtual time has to move, else after the
    /// lock is given up, by [`wait`] with this number.
    pub(crate) fn wait(&mut self, until: Moment) {
        if until.is_known() && !self.clock.is_real_time() {
            self.clock.advance_to(until.earliest());
            return;
        }
        self.ids.ticket += 1;
        self.waiting = Some(self.ids.ticket);
        self.host.waits.push((self.ids.ticket, until));
    }

    /// 600 unless the moment has come.
    pub(crate) fn is_past(&self, moment: &Moment) -> Outcome {
        if moment.is_past(self.clock.now()) { Ok(()) } else { Err(Status::ERROR_NOT_READY) }
    }

    /// Tells those who wait that the clock may have moved. A system call, but for a program
    /// without host functions and real waits.
    pub(crate) fn wake(&self) {
        if !self.host.calls.is_empty() || !self.host.waits.is_empty() {
            CHANGED.notify_all();
        }
    }

    /// A context goes: functions that have not begun never do, the current call waits for the one
    /// that runs.
    pub(crate) fn forget_calls(&mut self, context: u64) {
        let (ours, others) = std::mem::take(&mut self.host.calls)
            .into_iter()
            .partition::<Vec<_>, _>(|call| call.context == context && !call.has_begun);
        self.host.calls = others;
        for call in ours {
            self.passed(call.id, self.clock.now());
        }
        let running = self.host.calls.iter().find(|call| call.context == context);
        if let Some(id) = running.map(|call| call.id) {
            self.wait(Moment::default().until_return_of(id));
        }
    }

    /// What came after a function is behind it no longer.
    fn passed(&mut self, function: u64, at: u64) {
        let streams = self.streams.iter_mut().map(|(_, stream)| &mut stream.busy_until);
        let execs = self.execs.iter_mut().map(|(_, exec)| &mut exec.last_end);
        let events = self.events.iter_mut().filter_map(|(_, event)| match &mut event.state {
            State::Recorded(at) => Some(at),
            _ => None,
        });
        let calls = self.host.calls.iter_mut().map(|call| &mut call.start);
        let waits = self.host.waits.iter_mut().map(|(_, until)| until);
        for moment in streams.chain(execs).chain(events).chain(calls).chain(waits) {
            moment.returned(function, at);
        }
    }
}

/// The driver's own thread.
fn work() {
    let mut world = world::lock();
    while !world.host.calls.is_empty() {
        let now = world.clock.now();
        let next = world.host.next(|_| true);
        let next = next.map(|call| (call.id, call.context, call.start.earliest(), call.callback));
        let Some((id, context, start, callback)) = next.filter(|(_, _, start, _)| *start <= now)
        else {
            world = pause(world, next.map(|(_, _, start, _)| start));
            continue;
        };
        for call in world.host.calls.iter_mut().filter(|call| call.id == id) {
            call.has_begun = true;
        }
        // In a context that met an error it is not called.
        if world.healthy(context).is_ok() {
            drop(world);
            callback.run();
            world = world::lock();
        }
        let took = world.clock.now().saturating_sub(now);
        world.host.calls.retain(|call| call.id != id);
        world.passed(id, start.saturating_add(took));
        CHANGED.notify_all();
    }
    world.host.has_worker = false;
}

/// Gives up the lock until something changes or, in real time, the clock reads `until`.
fn pause(world: MutexGuard<'_, World>, until: Option<u64>) -> MutexGuard<'_, World> {
    match until.filter(|_| world.clock.is_real_time()) {
        Some(until) => {
            let left = Duration::from_nanos(until.saturating_sub(world.clock.now()));
            let waited = CHANGED.wait_timeout(world, left);
            waited.unwrap_or_else(PoisonError::into_inner).0
        }
        None => CHANGED.wait(world).unwrap_or_else(PoisonError::into_inner),
    }
}

/// Waits for what [`World::wait`] gave this number, or until the world is reset. Virtual time
/// goes there, and stops on the way at each function that the moment is behind.
pub(crate) fn wait(number: u64) {
    let mut world = world::lock();
    loop {
        let found = world.host.waits.iter().position(|(known, _)| *known == number);
        let Some((place, (_, until))) = found.and_then(|at| Some((at, world.host.waits.get(at)?)))
        else {
            return;
        };
        let (now, is_real) = (world.clock.now(), world.clock.is_real_time());
        if until.is_past(now) {
            world.host.waits.swap_remove(place);
            return;
        }
        let before = world.host.next(|call| until.is_behind(call.id));
        let next = before.map_or(until.earliest(), |call| call.start.earliest());
        if next > now && !is_real {
            world.clock.advance_to(next);
            CHANGED.notify_all();
        } else {
            world = pause(world, Some(next).filter(|next| *next > now));
        }
    }
}

/// Forgets the functions that have not begun, and waits for the one that runs; not within it.
pub(crate) fn forget(mut world: MutexGuard<'_, World>) -> MutexGuard<'_, World> {
    loop {
        world.host.calls.retain(|call| call.has_begun);
        world.host.waits.clear();
        CHANGED.notify_all();
        if world.host.calls.is_empty() || Thread::current(world.epoch).is_in_callback {
            return world;
        }
        world = pause(world, None);
    }
}
