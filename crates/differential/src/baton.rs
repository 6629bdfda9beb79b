// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real threads that step by baton: the machine itself is handed from thread to
//! thread, so one of them runs at a time, in the sequence's order.

use crate::machine::Machine;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};

type Job = Box<dyn FnOnce(&mut Machine) + Send>;
type Baton = (Box<Machine>, Job);

/// The threads of applications, one after another: a thread forgets its state
/// when the simulator is reset.
pub(crate) struct Threads {
    to: Vec<Sender<Baton>>,
    back: Receiver<Option<Box<Machine>>>,
}

impl Threads {
    pub(crate) fn new(count: usize) -> Self {
        let (give_back, back) = channel();
        let start = |thread: usize| {
            let (to, baton) = channel::<Baton>();
            let give_back = give_back.clone();
            std::thread::spawn(move || {
                for (mut machine, job) in baton {
                    machine.thread = thread;
                    let done = catch_unwind(AssertUnwindSafe(|| job(&mut machine)));
                    if give_back.send(done.is_ok().then_some(machine)).is_err() {
                        return;
                    }
                }
            });
            to
        };
        Self { to: (0..count).map(start).collect(), back }
    }

    /// Runs `job` on that thread, and waits for it.
    ///
    /// # Panics
    /// Where the job did.
    pub(crate) fn run(
        &self,
        thread: usize,
        machine: Box<Machine>,
        job: impl FnOnce(&mut Machine) + Send + 'static,
    ) -> Box<Machine> {
        let sent = self.to[thread].send((machine, Box::new(job)));
        sent.expect("the thread waits for its operation");
        let back = self.back.recv().expect("the threads wait for jobs");
        back.expect("the job panicked; it said why")
    }
}
