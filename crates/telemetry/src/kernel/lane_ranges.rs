// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lanes as NVTX ranges: their names, and ranges of the default domain for a
//! caller that places them itself. A range belongs to the thread that pushed it.

use super::LANES;
use crate::telemetry::{Telemetry, global};
use metrale_gpu_sys::nvtx;
use std::ffi::{CStr, CString};

/// [`LANES`] as C strings: the names of the ranges.
const NAMES: [&CStr; LANES.len()] = [c"admit", c"prefill", c"decode"];

/// A lane's name as a range's: up to its first NUL, if it has one.
pub(super) fn range_name(name: &str) -> CString {
    let name = name.split('\0').next().unwrap_or_default();
    CString::new(name).unwrap_or_default()
}

impl Telemetry {
    /// The name of a lane's ranges.
    #[doc(hidden)]
    #[must_use]
    pub fn lane_range(&self, lane: usize) -> Option<&CStr> {
        let own = || self.instruments().own_lane_range(lane);
        NAMES.get(lane).copied().or_else(own)
    }
}

/// Pushes a range with the lane's name on this thread. A lane is one of
/// [`LANES`], or was named in [`global`]; another index pushes nothing, so there
/// is nothing to pop for it either.
pub fn nvtx_push_lane(lane: usize) {
    if let Some(name) = global().lane_range(lane) {
        nvtx::push(name);
    }
}

/// Pops this thread's innermost range of the default domain.
pub fn nvtx_pop() {
    nvtx::pop();
}

#[cfg(test)]
mod tests {
    use super::{LANES, Telemetry};

    #[test]
    fn the_range_names_are_the_lane_names() {
        let telemetry = Box::new(Telemetry::new());
        telemetry.name_lanes(&["draft", "two\0parts"]).unwrap();
        let name = |lane| telemetry.lane_range(lane)?.to_str().ok();
        let names: Vec<_> = (0..5).filter_map(name).collect();
        assert_eq!(names, [&LANES[..], &["draft", "two"]].concat());
        assert_eq!(name(5), None);
    }
}
