// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps and lanes of guards as NVTX ranges (feature `nvtx`), in the domain
//! `metrale`, so that lanes nest in their steps whatever the application pushes
//! elsewhere. Without the feature a range is nothing.
//!
//! A range lives in the guard that pushed it, on that guard's thread, and goes
//! with it: on a return, a panic or a change of level alike. At level `Off` none
//! is pushed. Spans that are tokens may change threads and have no range.

pub(super) use imp::OpenRange;

#[cfg(feature = "nvtx")]
mod imp {
    use super::super::shared::Shared;
    use metrale_gpu_sys::nvtx::{Domain, Range};
    use metrale_telemetry::Step;
    use std::ffi::CStr;
    use std::sync::OnceLock;

    /// The category of armed steps and their lanes.
    const ARMED: u32 = 1;
    /// Their colour, an orange.
    const ARMED_ARGB: u32 = 0xffe6_9f00;

    fn domain() -> &'static Domain {
        static DOMAIN: OnceLock<Domain> = OnceLock::new();
        DOMAIN.get_or_init(|| {
            let domain = Domain::new(c"metrale");
            domain.name_category(ARMED, c"armed");
            domain
        })
    }

    /// A range that this thread pushed; its drop pops it.
    pub(in super::super) struct OpenRange(());

    impl OpenRange {
        /// The range of a step, with the step's number.
        pub(in super::super) fn step(step: Step) -> Option<Self> {
            Some(Self::push(c"step", Some(step.number()?), step.is_armed()))
        }

        /// The range of a lane of a step; none for a lane that does not exist.
        pub(in super::super) fn lane(
            shared: Option<&Shared>,
            step: Step,
            lane: usize,
        ) -> Option<Self> {
            step.number()?;
            let name = shared?.telemetry.lane_range(lane)?;
            Some(Self::push(name, None, step.is_armed()))
        }

        fn push(name: &CStr, payload: Option<u64>, armed: bool) -> Self {
            let (category, argb) = if armed { (ARMED, Some(ARMED_ARGB)) } else { (0, None) };
            domain().push(&Range { name, payload, category, argb });
            Self(())
        }
    }

    impl Drop for OpenRange {
        fn drop(&mut self) {
            domain().pop();
        }
    }
}

#[cfg(not(feature = "nvtx"))]
mod imp {
    use super::super::shared::Shared;
    use metrale_telemetry::Step;

    pub(in super::super) struct OpenRange(());

    impl OpenRange {
        pub(in super::super) fn step(_: Step) -> Option<Self> {
            None
        }
        pub(in super::super) fn lane(_: Option<&Shared>, _: Step, _: usize) -> Option<Self> {
            None
        }
    }
}
