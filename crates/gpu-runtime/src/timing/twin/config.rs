// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of twins.

use metrale_telemetry::runtime::LEAST_MARKS;

/// Options of the twins of a recorder: `RecorderConfig { twins: Some(…), .. }`.
/// Events are made when the recorder is: `marks × resident`.
///
/// ```
/// use metrale_gpu_runtime::timing::{RecorderConfig, TwinsConfig};
/// let config = RecorderConfig {
///     twins: Some(TwinsConfig { resident: 8, ..TwinsConfig::default() }),
///     ..RecorderConfig::default()
/// };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwinsConfig {
    /// Marks of a twin, its first and its last among them: 5 to 65,536. A graph of
    /// fewer nodes is marked whole; of a larger one a plan marks windows, and
    /// [`Twin::renew`](super::Twin::renew) moves on to the next.
    pub marks: usize,
    /// Twins that there can be at once, 1 to 1,024.
    pub resident: usize,
    /// Nodes of the largest graph that gets a twin.
    pub nodes: usize,
    /// Device memory of all twins together, bytes: 10 kB are reckoned for a node,
    /// as no call tells.
    pub bytes: usize,
    /// Launches that a plan of windows lives for.
    pub plan_launches: u32,
    /// Launches the twin on every armed step, not on one in two by a hash, and from
    /// the first launch on: it is promised that no executable was launched before its
    /// twin was made. Nothing is then known of what the marks cost a whole graph.
    pub always: bool,
}

impl Default for TwinsConfig {
    /// 32 marks, four twins, 4,096 nodes, 64 MiB, 32 launches to a plan.
    fn default() -> Self {
        Self {
            marks: 32,
            resident: 4,
            nodes: 4096,
            bytes: 64 << 20,
            plan_launches: 32,
            always: false,
        }
    }
}

/// What a node of an executable is reckoned to take on the device.
pub(in crate::timing) const NODE_BYTES: usize = 10_000;

impl TwinsConfig {
    /// The option that is out of its range.
    pub(in crate::timing) fn flaw(&self) -> Option<(&'static str, usize)> {
        let Self { marks, resident, .. } = *self;
        if !(LEAST_MARKS..=1 << 16).contains(&marks) {
            return Some(("twins.marks", marks));
        }
        (!(1..=1 << 10).contains(&resident)).then_some(("twins.resident", resident))
    }
}
