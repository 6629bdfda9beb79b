// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder's own thread, which harvests so that serving threads need not:
//! a poll can block inside the driver.

use super::polls::this_thread_is_own;
use super::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Who harvests.
///
/// ```
/// use metrale_gpu_runtime::timing::Harvest;
/// use std::time::Duration;
/// assert_eq!(Harvest::default(), Harvest::OwnThread(Duration::from_millis(10)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Harvest {
    /// A thread of the recorder, at this interval. A poll that blocks in the
    /// driver holds up nobody else: right for a server.
    OwnThread(Duration),
    /// The application, by [`Recorder::harvest`](super::Recorder::harvest),
    /// best at the begin of a step. Its thread then waits where a poll blocks
    /// in the driver: right where no thread may be started, or where a harvest
    /// has to come at a known moment.
    Explicit,
}

/// A hundred times a second.
pub(super) const DEFAULT_INTERVAL: Duration = Duration::from_millis(10);

impl Default for Harvest {
    /// The recorder's own thread, a hundred times a second.
    fn default() -> Self {
        Harvest::OwnThread(DEFAULT_INTERVAL)
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
        let thread =
            std::thread::Builder::new().name("metrale-harvest".into()).spawn(move || {
                this_thread_is_own();
                if let Some(_busy) = shared.watch.busy() {
                    shared.enter_context();
                }
                while !stopped.load(Ordering::Relaxed) {
                    let Some(busy) = shared.watch.busy() else {
                        // The process exits. What is shared outlives it.
                        std::mem::forget(shared);
                        return;
                    };
                    shared.harvest();
                    drop(busy);
                    shared.hand_on();
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
