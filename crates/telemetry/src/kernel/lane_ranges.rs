// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lanes as NVTX ranges of the default domain, for a caller that places them
//! itself. A range belongs to the thread that pushed it.

use super::LANES;
use metrale_gpu_sys::nvtx;
use std::ffi::CStr;

/// [`LANES`] as C strings: the names of the ranges.
const NAMES: [&CStr; LANES.len()] = [c"admit", c"prefill", c"decode"];

/// Pushes a range with the lane's name on this thread. An index outside the
/// lanes pushes nothing, so there is nothing to pop for it either.
pub fn nvtx_push_lane(lane: usize) {
    if let Some(name) = NAMES.get(lane) {
        nvtx::push(name);
    }
}

/// Pops this thread's innermost range of the default domain.
pub fn nvtx_pop() {
    nvtx::pop();
}

#[cfg(test)]
mod tests {
    use super::{LANES, NAMES};

    #[test]
    fn the_range_names_are_the_lane_names() {
        assert_eq!(NAMES.map(|name| name.to_str().unwrap()), LANES);
    }
}
