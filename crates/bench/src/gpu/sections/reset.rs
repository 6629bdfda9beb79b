// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the driver answers about an event after its primary context was reset:
//! undefined, and it may end the process, which is why this has one of its own.

use crate::gpu::Failure;
use crate::gpu::cuda::called;
use crate::gpu::run::Bench;

/// The name of the part.
pub(super) const ID: &str = "reset";

/// Tells a note for each call and, before it, what is tried.
pub(super) fn measure(bench: &Bench) -> Result<(), Failure> {
    let (gpu, tell) = (&bench.gpu, &bench.tell);
    let stream = gpu.stream()?;
    let (from, to) = (gpu.event()?, gpu.event()?);
    gpu.record(from, stream)?;
    gpu.record(to, stream)?;
    gpu.sync(stream)?;
    tell.note(format!("before: query {}", gpu.query(to).0));
    tell.trying("cuDevicePrimaryCtxReset");
    // SAFETY: takes a number. From here on the handles are dead.
    let status = unsafe { (gpu.more.reset)(gpu.ordinal) };
    called(c"cuDevicePrimaryCtxReset_v2", status)?;
    tell.trying("cuEventQuery after the reset");
    tell.note(format!("after: query {}", gpu.query(to).0));
    tell.trying("cuEventElapsedTime after the reset");
    tell.note(format!("elapsed {}", gpu.read_v1(from, to).0.0));
    tell.trying("cuStreamIsCapturing after the reset");
    tell.note(format!("capture query {}", gpu.capturing(stream.0).0.0));
    Ok(())
}
