// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder's own thread, which harvests so that serving threads need not:
//! a poll can block inside the driver.

use super::recorder::Shared;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Who harvests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harvest {
    /// A thread of the recorder, at this interval. A poll that blocks in the
    /// driver holds up nobody else.
    OwnThread(Duration),
    /// The application, by [`Recorder::harvest`](super::Recorder::harvest),
    /// best at the begin of a step.
    Explicit,
}

impl Default for Harvest {
    /// The recorder's own thread, a hundred times a second.
    fn default() -> Self {
        Harvest::OwnThread(Duration::from_millis(10))
    }
}

/// The running thread.
#[derive(Debug)]
pub(super) struct Harvester {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
}

/// How long a closing recorder waits for its thread. A thread that hangs in
/// the driver for longer is left behind with all it uses.
const PATIENCE: Duration = Duration::from_millis(500);

impl Harvester {
    pub(super) fn start(shared: Arc<Shared>, interval: Duration) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("metrale-harvest".into())
            .spawn(move || {
                shared.enter_context();
                while !stopped.load(Ordering::Relaxed) {
                    shared.harvest();
                    std::thread::park_timeout(interval);
                }
            })?;
        Ok(Self { thread, stop })
    }

    /// Asks the thread to stop; whether it has, within half a second.
    pub(super) fn stop(self) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let deadline = Instant::now() + PATIENCE;
        while !self.thread.is_finished() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.thread.join().is_ok()
    }
}
