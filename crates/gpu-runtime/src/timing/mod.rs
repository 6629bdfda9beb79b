// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a serving stack holds: a [`Recorder`] with guards for steps, lanes and
//! launches, over a pool of CUDA events.
//!
//! A recorder belongs to one context. A process with several GPUs has one for
//! each, with a label of its own.

mod anchors;
mod config;
mod demangle;
mod drain;
mod elapsed;
mod entry;
mod error;
mod events;
mod floor;
mod gpu;
mod guards;
mod handles;
mod harvester;
mod health;
mod installed;
mod labels;
mod making;
mod names;
mod naming;
mod on_step;
mod open;
mod owned;
mod pace;
mod pair;
mod polls;
mod process;
mod ranges;
mod recorder;
mod regions;
mod shared;
mod source;
mod twin;
mod verdict;

pub use config::{LANE_SLOTS, RecorderConfig, SPAN_SLOTS};
pub use demangle::demangle;
pub use drain::Drained;
pub use error::InstallError;
pub use guards::{LaneGuard, LaunchGuard, StepGuard};
pub use handles::{ContextRef, FuncRef, GraphRef, KernelRef, OwnedStream, RegionRef, StreamRef};
pub use harvester::Harvest;
pub use health::Health;
pub use installed::{
    AlreadyInstalledError, harvest, install, installed, lane_begin, lane_end, launch_begin,
    launch_end, region_begin, region_end, step_shape,
};
pub use labels::kernel_label;
pub use metrale_gpu_sys::cuda::{Driver, DriverError, Origin, Status};
pub use naming::NamedKernel;
pub use on_step::OnStep;
pub use owned::{OwnedLane, OwnedStep};
pub use recorder::Recorder;
pub use twin::{
    GraphLaunch, NodeType, RawGraph, Twin, TwinError, TwinLedger, TwinState, TwinsConfig, Updates,
};
