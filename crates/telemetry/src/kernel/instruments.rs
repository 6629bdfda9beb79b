// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where landed spans are counted: a histogram for each lane, a row for each
//! kernel, and counters for what could not be timed.

use super::folded::{Folded, StepLosses};
use super::folded_copy::FoldedCopy;
use super::landing::{Batch, Landing, Launches};
use super::records::{
    GraphPart, OpenSteps, RecentSteps, RecordedSteps, Recording, SlowMinute, SlowStep, StepCursor,
    StepLog, StepRecord, Timeline, TooManyStepsError, TwinLaunch,
};
use super::span::{Landed, NotBegun, SpanKey};
use super::table::{KERNEL_TABLE_SLOTS, KernelTable};
use super::{LANES, MAX_LANES};
use crate::instrument::{Counter, NanosHistogram};
use crate::lanes::LaneNames;
use crate::sync::relaxed::{self, Mutex, lock_alive, try_lock};
use crate::sync::{Ordering, array_of, const_fn};
use std::fmt;
use std::sync::OnceLock;

/// Places of the kernel table.
pub(super) const PLACES: usize = 2 * KERNEL_TABLE_SLOTS;

/// GPU time by lane and by kernel. `const`, fixed size (about 380 KiB), no
/// allocation but for reading, for naming lanes and for what is kept of steps.
///
/// ```
/// use metrale_telemetry::kernel::{KernelInstruments, LANE_PREFILL, SpanKey};
///
/// static INSTRUMENTS: KernelInstruments = KernelInstruments::new();
/// INSTRUMENTS.record(SpanKey::Lane(LANE_PREFILL), 7_000_000);
/// assert_eq!(INSTRUMENTS.lane[LANE_PREFILL].count(), 1);
/// ```
pub struct KernelInstruments {
    /// GPU time of each lane's spans.
    pub lane: [NanosHistogram; 3],
    /// GPU time from the end of a lane's span to the start of the next on the
    /// same stream, filed under the lane that starts.
    pub lane_gap: [NanosHistogram; 3],
    /// Lane spans whose gap is not known: the first of a stream, or one whose
    /// predecessor was lost, used again before it could be read, or not over.
    pub lane_gap_unknown: Counter,
    /// Samples of kernels that have no row: handle 0, or a full table.
    pub table_full: Counter,
    /// Spans that found their slot in use.
    pub spans_dropped: Counter,
    /// Spans begun whose start, end or reading failed.
    pub span_failures: Counter,
    own_lanes: OnceLock<Box<[OwnLane]>>,
    /// Spans of a lane that have no time.
    lane_lost: [Counter; MAX_LANES],
    /// The same of the kernel at each place.
    row_lost: [Counter; PLACES],
    kernels: KernelTable<PLACES>,
    batch: Mutex<Batch>,
    /// What steps came to. A pass does not wait for it; a reader holds it for
    /// a copy.
    pub(super) folded: Mutex<Folded>,
    /// The steps that left no record yet.
    pub(crate) open_steps: OpenSteps,
    /// Those that did. As `folded`, and taken after it.
    pub(super) log: Mutex<StepLog>,
    /// The first step of the estimates' window.
    window: relaxed::AtomicU64,
}

/// A lane that the application named.
struct OwnLane {
    name: Box<str>,
    /// The name of its ranges.
    #[cfg(feature = "nvtx")]
    range: std::ffi::CString,
    gpu: NanosHistogram,
    gap: NanosHistogram,
}

/// GPU time of one kernel.
///
/// ```
/// use metrale_telemetry::kernel::{KernelInstruments, KernelTime, SpanKey};
///
/// let instruments = Box::new(KernelInstruments::new());
/// for ns in [2_000, 3_000] {
///     instruments.record(SpanKey::Kernel(0xf00d), ns);
/// }
/// let row = KernelTime { func: 0xf00d, total_ns: 5_000, samples: 2 };
/// assert_eq!(instruments.kernels(), [row]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTime {
    /// The function handle.
    pub func: u64,
    /// GPU nanoseconds of its timed launches.
    pub total_ns: u64,
    /// How many launches were timed.
    pub samples: u64,
}

impl KernelInstruments {
    const_fn! {
        /// Instruments with nothing in them.
        #[must_use]
        pub const fn new() -> Self {
            Self {
                lane: array_of!(NanosHistogram::new()),
                lane_gap: array_of!(NanosHistogram::new()),
                lane_gap_unknown: Counter::new(),
                table_full: Counter::new(),
                spans_dropped: Counter::new(),
                span_failures: Counter::new(),
                own_lanes: OnceLock::new(),
                lane_lost: array_of!(Counter::new()),
                row_lost: array_of!(Counter::new()),
                kernels: KernelTable::new(),
                batch: Mutex::new(Batch::new()),
                folded: Mutex::new(Folded::new()),
                open_steps: OpenSteps::new(),
                log: Mutex::new(StepLog::new()),
                window: relaxed::AtomicU64::new(0),
            }
        }
    }

    /// Takes lanes on, once; whether it was that once.
    pub(crate) fn name_lanes(&self, names: &LaneNames<'_>) -> bool {
        let own = names.iter().map(|name| OwnLane {
            name: name.into(),
            #[cfg(feature = "nvtx")]
            range: super::lane_ranges::range_name(name),
            gpu: NanosHistogram::new(),
            gap: NanosHistogram::new(),
        });
        self.own_lanes.set(own.collect()).is_ok()
    }

    fn own_lane(&self, lane: usize) -> Option<&OwnLane> {
        self.own_lanes.get()?.get(lane.checked_sub(LANES.len())?)
    }

    /// How many lanes there are: those of [`LANES`], and the ones that were
    /// named. The next index, and all above it, are no lane's.
    #[must_use]
    #[inline]
    pub fn lanes(&self) -> usize {
        LANES.len() + self.own_lanes.get().map_or(0, |own| own.len())
    }

    /// A lane's name.
    #[must_use]
    pub fn lane_name(&self, lane: usize) -> Option<&str> {
        let own = || self.own_lane(lane).map(|own| &*own.name);
        LANES.get(lane).copied().or_else(own)
    }

    /// The name of the ranges of a lane that the application named.
    #[cfg(feature = "nvtx")]
    pub(crate) fn own_lane_range(&self, lane: usize) -> Option<&std::ffi::CStr> {
        self.own_lane(lane).map(|own| own.range.as_c_str())
    }

    /// GPU time of a lane's spans, whichever lane it is.
    #[must_use]
    #[inline]
    pub fn lane_times(&self, lane: usize) -> Option<&NanosHistogram> {
        let own = || self.own_lane(lane).map(|own| &own.gpu);
        self.lane.get(lane).or_else(own)
    }

    /// As [`lane_gap`](Self::lane_gap), of whichever lane.
    #[must_use]
    pub fn lane_gaps(&self, lane: usize) -> Option<&NanosHistogram> {
        let own = || self.own_lane(lane).map(|own| &own.gap);
        self.lane_gap.get(lane).or_else(own)
    }

    /// Counts GPU time of `ns` nanoseconds. An index that is no lane's is
    /// ignored; a kernel that has no row counts `table_full`.
    #[inline]
    pub fn record(&self, key: SpanKey, ns: u64) {
        match key {
            SpanKey::Lane(lane) => {
                if let Some(histogram) = self.lane_times(lane) {
                    histogram.observe(ns);
                }
            }
            SpanKey::Kernel(func) => {
                if !self.kernels.record(func, ns) {
                    self.table_full.add(1);
                }
            }
        }
    }

    /// Every kernel with at least one sample, in no order.
    #[must_use]
    pub fn kernels(&self) -> Vec<KernelTime> {
        let mut rows = Vec::new();
        self.each_kernel(|row| rows.push(row));
        rows
    }

    /// As [`kernels`](Self::kernels), one by one: it allocates nothing.
    pub fn each_kernel(&self, mut visit: impl FnMut(KernelTime)) {
        self.kernels.each_row(|_, func, total_ns, samples| {
            visit(KernelTime { func, total_ns, samples });
        });
    }

    /// The kernels that have rows and at least one sample, as pairs of place
    /// and handle.
    fn placed(&self) -> Vec<(usize, u64)> {
        let rows = self.kernels.placed().into_iter();
        rows.map(|(place, func, ..)| (place, func)).collect()
    }

    /// Counts the spans of a pass.
    pub(super) fn landing(&self) -> Landing<'_> {
        Landing::new(self, &self.batch)
    }

    /// Counts an attempt that came to no span. One that was refused lost nothing:
    /// what its stream captures does not run.
    #[cold]
    pub fn count_not_begun(&self, key: SpanKey, why: NotBegun) {
        match why {
            NotBegun::Refused => {}
            NotBegun::Dropped => {
                self.spans_dropped.add(1);
                self.count_lost(key);
            }
            NotBegun::Failed => self.count_failed(key),
        }
    }

    /// Counts a span whose start, end or reading failed.
    #[cold]
    pub fn count_failed(&self, key: SpanKey) {
        self.span_failures.add(1);
        self.count_lost(key);
    }

    /// Counts a span that is missing from its lane, or its row.
    #[cold]
    pub(super) fn count_lost(&self, key: SpanKey) {
        if let Some(lost) = self.lost(key) {
            lost.add(1);
        }
    }

    /// Counts a landed span of a lane.
    pub(super) fn count_lane(&self, lane: usize, span: &Landed) {
        self.record(span.key, span.ns);
        match (span.gap_ns, self.lane_gaps(lane)) {
            (Some(gap_ns), Some(histogram)) => histogram.observe(gap_ns),
            (None, Some(_)) => self.lane_gap_unknown.add(1),
            (_, None) => {}
        }
    }

    /// Counts launches: as many, and as long, as [`KernelTable::add`] takes at
    /// once.
    pub(super) fn count_launches(&self, launches: &Launches) {
        match launches.place {
            Some(place) => self.kernels.add(place, launches.count, launches.ns),
            None => self.table_full.add(launches.count),
        }
    }

    /// The place of the kernel's row, if it has one.
    #[inline]
    pub(super) fn place_of(&self, func: u64) -> Option<usize> {
        self.kernels.place(func)
    }

    /// As [`place_of`](Self::place_of), where a first look finds it.
    #[inline]
    pub(super) fn first_place_of(&self, func: u64) -> Option<usize> {
        self.kernels.first_place(func)
    }
}

impl KernelInstruments {
    /// Takes the memory of records, if that was not done: where a recorder is
    /// made, or else at the first harvest.
    pub(crate) fn take_log_memory(&self) {
        // Whoever holds it has it already, or takes it.
        if let Some(mut log) = try_lock(&self.log) {
            log.take_memory();
        }
    }

    /// As [`StepLog::read`], or without marking them as read.
    pub(crate) fn recent_steps(&self, marks: bool) -> RecentSteps {
        match lock_alive(&self.log) {
            Some(mut log) if marks => log.read(),
            Some(log) => log.recent(),
            None => RecentSteps::default(),
        }
    }

    pub(crate) fn next_record(&self, cursor: &mut StepCursor) -> Option<StepRecord> {
        lock_alive(&self.log)?.next(cursor)
    }

    pub(crate) fn timelines(&self) -> Vec<Timeline> {
        let func = self.func_of_row();
        let log = lock_alive(&self.log);
        log.map_or_else(Vec::new, |log| log.timelines.read(self.lanes(), func))
    }

    pub(crate) fn recording(&self) -> Option<Recording> {
        let func = self.func_of_row();
        let log = lock_alive(&self.log)?;
        log.timelines.read_recording(self.lanes(), func)
    }

    /// Adds what the marks of a twin's launch told; not while somebody reads.
    pub(crate) fn add_parts(&self, launch: TwinLaunch, parts: impl Iterator<Item = GraphPart>) {
        if let Some(mut log) = try_lock(&self.log) {
            log.timelines.add_parts(launch, parts);
        }
    }

    pub(crate) fn record_steps(
        &self,
        steps: usize,
        when: Option<SlowStep>,
    ) -> Result<(), TooManyStepsError> {
        let recording = RecordedSteps::new(steps, when)?;
        let before = lock_alive(&self.log).and_then(|mut log| log.timelines.record(recording));
        // Without the lock: it may be much memory.
        drop(before);
        Ok(())
    }

    /// Tells the handle of a row.
    fn func_of_row(&self) -> impl Fn(u16) -> Option<u64> + use<> {
        let placed = self.placed();
        move |row| {
            let mut own = placed.iter().filter(|(place, _)| *place == usize::from(row));
            own.next().map(|(_, func)| *func)
        }
    }

    pub(crate) fn slowest_steps(&self, now_ns: u64) -> Vec<SlowMinute> {
        lock_alive(&self.log).map_or_else(Vec::new, |log| log.slowest(now_ns))
    }
}

impl KernelInstruments {
    /// Begins estimates anew at step `step`: the sampling is another one.
    pub(crate) fn restart_estimates(&self, step: u64) {
        let lane_lost = self.lane_lost.each_ref().map(Counter::get);
        if let Some(mut folded) = lock_alive(&self.folded) {
            folded.estimates.restart(step, lane_lost);
        }
        self.window.store(step, Ordering::Relaxed);
    }

    pub(super) fn window(&self) -> u64 {
        self.window.load(Ordering::Relaxed)
    }

    /// Spans of a lane, or of a kernel, that have no time.
    pub(crate) fn lost_of(&self, key: SpanKey) -> u64 {
        self.lost(key).map_or(0, Counter::get)
    }

    fn lost(&self, key: SpanKey) -> Option<&Counter> {
        match key {
            SpanKey::Lane(lane) => self.lane_lost.get(lane),
            SpanKey::Kernel(func) => self.row_lost.get(self.kernels.place(func)?),
        }
    }

    /// What steps lost so far.
    pub fn step_losses(&self) -> StepLosses {
        StepLosses {
            unrecorded_steps: self.open_steps.unrecorded(),
            ..lock_alive(&self.folded).map_or_else(StepLosses::default, |folded| folded.losses())
        }
    }

    /// A copy of all that was folded. It allocates, and holds up nobody: a
    /// pass that comes meanwhile leaves its steps to the next one.
    pub(crate) fn copy_folded(&self) -> FoldedCopy {
        let places = self.placed();
        let folded = lock_alive(&self.folded).map(|folded| Box::new(folded.clone()));
        let mut folded = folded.unwrap_or_else(|| Box::new(Folded::new()));
        let lane_lost = self.lane_lost.each_ref().map(Counter::get);
        folded.estimates.set_lane_lost(lane_lost);
        FoldedCopy { folded, places, unrecorded: self.open_steps.unrecorded() }
    }
}

impl Default for KernelInstruments {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for KernelInstruments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("KernelInstruments");
        for lane in 0..self.lanes() {
            if let (Some(name), Some(times)) = (self.lane_name(lane), self.lane_times(lane)) {
                out.field(name, times);
            }
        }
        out.field("kernels", &self.kernels().len())
            .field("table_full", &self.table_full)
            .field("spans_dropped", &self.spans_dropped)
            .field("span_failures", &self.span_failures)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests {
    use super::KernelInstruments;
    use crate::kernel::{KERNEL_TABLE_SLOTS, SpanKey};

    #[test]
    fn the_513th_kernel_and_handle_0_are_counted() {
        let instruments = Box::new(KernelInstruments::new());
        for func in 1..=KERNEL_TABLE_SLOTS as u64 {
            instruments.record(SpanKey::Kernel(func << 9), 1);
        }
        assert_eq!(instruments.table_full.get(), 0);
        instruments.record(SpanKey::Kernel(7), 1);
        instruments.record(SpanKey::Kernel(0), 1);
        assert_eq!(instruments.table_full.get(), 2);
        assert_eq!(instruments.kernels().len(), KERNEL_TABLE_SLOTS);
    }
}
