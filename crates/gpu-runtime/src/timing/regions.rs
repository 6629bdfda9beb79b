// SPDX-License-Identifier: MIT OR Apache-2.0
//! Regions: named GPU work without a function of the application's, as library
//! calls, collectives, sampling, drafting, and copies.
//!
//! A region is timed as a launch is, and is none: no count of launches has it. It
//! may have launches and other regions within it; their time is part of its own.

use super::guards::{LaneGuard, LaunchGuard};
use super::handles::{RegionRef, StreamRef};
use super::owned::OwnedLane;
use super::recorder::Recorder;
use metrale_telemetry::Step;
use metrale_telemetry::kernel::SpanToken;
use metrale_telemetry::snapshot::RowKind;

impl Recorder {
    /// The region of that name, for [`LaneGuard::region`]. The same name gives the
    /// same region. It takes a lock and may allocate: call it once, and keep what
    /// it returns.
    #[must_use]
    pub fn region(&self, name: &str) -> RegionRef {
        self.region_of(RowKind::Region, name)
    }

    /// As [`region`](Self::region), of copies, or sets of memory: a row of that
    /// kind.
    #[must_use]
    pub fn copy(&self, name: &str) -> RegionRef {
        self.region_of(RowKind::Copy, name)
    }

    fn region_of(&self, kind: RowKind, name: &str) -> RegionRef {
        RegionRef(self.shared().map_or(0, |shared| shared.names.numbered(kind, name)))
    }

    /// As [`begin_launch`](Self::begin_launch), of a region.
    pub fn begin_region<'a>(
        &self,
        step: Step,
        lane: usize,
        region: RegionRef,
        stream: impl Into<StreamRef<'a>>,
    ) -> Option<SpanToken> {
        self.begin_launch(step, lane, region.span(), stream)
    }

    /// Ends a region on `stream`. A token that names no open region is counted.
    pub fn end_region<'a>(&self, token: SpanToken, stream: impl Into<StreamRef<'a>>) {
        self.end_launch(token, stream);
    }

    /// Gives up a region in which nothing was put on the GPU.
    pub fn cancel_region(&self, token: SpanToken) {
        self.cancel_launch(token);
    }
}

impl LaneGuard<'_> {
    /// Puts a region's work on the lane's stream, by `work`, and gives back what
    /// that returned. A region whose work failed, or panicked, leaves no sample;
    /// launches within it keep theirs.
    ///
    /// It costs what a launch does: on a step that is not armed nothing is asked
    /// of the driver.
    ///
    /// ```
    /// # use metrale_gpu_runtime::timing::{FuncRef, Recorder, StreamRef};
    /// # use metrale_telemetry::kernel::LANE_DECODE;
    /// # let (recorder, softmax) = (Recorder::disabled(), FuncRef::from_raw(0x5000));
    /// # // SAFETY: nothing is measured, so no stream is used.
    /// # let stream = unsafe { StreamRef::from_raw(0) };
    /// # fn all_reduce() -> Result<(), std::fmt::Error> { Ok(()) }
    /// # fn launch_softmax() -> Result<(), std::fmt::Error> { Ok(()) }
    /// let (sampling, reduce) = (recorder.region("sampling"), recorder.region("all-reduce"));
    /// let step = recorder.step();
    /// let lane = step.lane(LANE_DECODE, stream);
    /// lane.region(sampling, || {
    ///     lane.launch(softmax, || launch_softmax())?;
    ///     lane.region(reduce, || all_reduce())
    /// })?;
    /// # Ok::<(), std::fmt::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `work`.
    #[inline]
    pub fn region<T, E>(
        &self,
        region: RegionRef,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.region_guard(region).run(work)
    }

    /// As [`region`](Self::region), on another stream.
    ///
    /// # Errors
    /// Those of `work`.
    #[inline]
    pub fn region_on<'s, T, E>(
        &self,
        region: RegionRef,
        stream: impl Into<StreamRef<'s>>,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.begin(region.span(), stream.into()).run(work)
    }

    /// As [`region`](Self::region), from now until the guard goes. One whose work
    /// fails is to be [cancelled](LaunchGuard::cancel).
    #[inline]
    pub fn region_guard(&self, region: RegionRef) -> LaunchGuard<'_> {
        self.begin(region.span(), self.stream())
    }

    /// As [`region_guard`](Self::region_guard), on another stream.
    #[inline]
    pub fn region_guard_on<'b>(
        &'b self,
        region: RegionRef,
        stream: impl Into<StreamRef<'b>>,
    ) -> LaunchGuard<'b> {
        self.begin(region.span(), stream.into())
    }
}

impl OwnedLane {
    /// As [`LaneGuard::region`].
    ///
    /// # Errors
    /// Those of `work`.
    pub fn region<T, E>(
        &self,
        region: RegionRef,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(region.span(), self.stream(), work)
    }

    /// As [`region`](Self::region), on another stream.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn region_on<'s, T, E>(
        &self,
        region: RegionRef,
        stream: impl Into<StreamRef<'s>>,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(region.span(), stream.into(), work)
    }
}
