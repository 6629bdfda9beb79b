// SPDX-License-Identifier: MIT OR Apache-2.0
//! One recorder for the process, for stacks whose launch path carries no
//! handle: one GPU, and one thread that schedules.
//!
//! A step begins with the first lane that does not come after the one before
//! it in the order of [`LANES`]. Before [`install`] every function does nothing.

use super::handles::{FuncRef, StreamRef};
use super::recorder::Recorder;
use metrale_telemetry::Step;
use metrale_telemetry::kernel::{LANES, SpanKey, SpanTag, SpanToken};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

struct Installed {
    recorder: Recorder,
    /// The open span of each lane as its token's bits; 0: none. (A token that
    /// a ring made is never 0.)
    open: [AtomicU64; LANES.len()],
    /// The lane begun last; `NO_LANE` before the first.
    lane: AtomicUsize,
    armed: AtomicBool,
}

const NO_LANE: usize = usize::MAX;

static INSTALLED: OnceLock<Installed> = OnceLock::new();

/// A recorder is installed already; the one given comes back.
#[derive(Debug, thiserror::Error)]
#[error("this process has a recorder installed already (label {0:?})")]
pub struct AlreadyInstalled(pub String, pub Box<Recorder>);

/// Installs the recorder of the process, for its lifetime.
///
/// # Errors
/// [`AlreadyInstalled`], with the recorder given.
pub fn install(recorder: Recorder) -> Result<(), AlreadyInstalled> {
    let installed = Installed {
        recorder,
        open: [const { AtomicU64::new(0) }; LANES.len()],
        lane: AtomicUsize::new(NO_LANE),
        armed: AtomicBool::new(false),
    };
    INSTALLED.set(installed).map_err(|rejected| {
        let label = INSTALLED
            .get()
            .map_or_else(String::new, |it| it.recorder.label().to_owned());
        AlreadyInstalled(label, Box::new(rejected.recorder))
    })
}

/// The recorder of the process, if one is installed.
#[must_use]
pub fn installed() -> Option<&'static Recorder> {
    INSTALLED.get().map(|installed| &installed.recorder)
}

/// Begins a lane on `stream`. A lane that is still open is given up first.
pub fn lane_begin<'a>(lane: usize, stream: impl Into<StreamRef<'a>>) {
    let Some(installed) = INSTALLED.get() else {
        return;
    };
    let shared = installed.recorder.shared();
    let Some(open) = installed.open.get(lane) else {
        return;
    };
    cancel(installed, lane, open.swap(0, Ordering::Relaxed));

    let before = installed.lane.swap(lane, Ordering::Relaxed);
    if before == NO_LANE || lane <= before {
        let Step { armed, .. } = shared.telemetry().step_begin();
        installed.armed.store(armed, Ordering::Relaxed);
    }
    let tag = SpanTag {
        armed: installed.armed.load(Ordering::Relaxed),
        lane: Some(lane),
    };
    if let Some(token) = shared.begin(SpanKey::Lane(lane), tag, stream.into()) {
        cancel(
            installed,
            lane,
            open.swap(token.to_bits(), Ordering::Relaxed),
        );
    }
}

fn cancel(installed: &Installed, lane: usize, bits: u64) {
    if bits != 0 {
        installed
            .recorder
            .shared()
            .cancel(SpanKey::Lane(lane), SpanToken::from_bits(bits));
    }
}

/// Ends the lane on `stream`; nothing happens where it is not open.
pub fn lane_end<'a>(lane: usize, stream: impl Into<StreamRef<'a>>) {
    let Some(installed) = INSTALLED.get() else {
        return;
    };
    let Some(open) = installed.open.get(lane) else {
        return;
    };
    let bits = open.swap(0, Ordering::Relaxed);
    if bits != 0 {
        let token = SpanToken::from_bits(bits);
        installed
            .recorder
            .shared()
            .end(SpanKey::Lane(lane), token, stream.into());
    }
}

/// Begins a launch of `func` on `stream`, in the lane begun last. `None` where
/// the step is not armed, or no span can be had.
pub fn launch_begin<'a>(
    func: impl Into<FuncRef>,
    stream: impl Into<StreamRef<'a>>,
) -> Option<SpanToken> {
    let installed = INSTALLED.get()?;
    if !installed.armed.load(Ordering::Relaxed) {
        return None;
    }
    let tag = SpanTag {
        armed: true,
        lane: Some(installed.lane.load(Ordering::Relaxed)),
    };
    let key = SpanKey::Kernel(func.into().handle());
    installed.recorder.shared().begin(key, tag, stream.into())
}

/// Ends a launch on `stream`.
pub fn launch_end<'a>(token: SpanToken, stream: impl Into<StreamRef<'a>>) {
    if let Some(installed) = INSTALLED.get() {
        // Any kernel key names the ring that the token came from.
        installed
            .recorder
            .shared()
            .end(SpanKey::Kernel(0), token, stream.into());
    }
}

/// Lands what the GPU has finished; see [`Recorder::harvest`].
pub fn harvest() -> usize {
    installed().map_or(0, Recorder::harvest)
}
