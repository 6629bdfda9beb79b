// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timelines of complete steps: the last ones, of which a new one
//! overwrites the oldest, and those of a recording, which stops when it is
//! full. Memory is taken once; to keep a step allocates nothing.

use super::StepRecord;
use super::insides::{GraphPart, Insides, TimelinePart, TwinLaunch};
use super::trigger::{SlowStep, Trigger};
use crate::kernel::fold::MAX_STEP_SPANS;
use crate::kernel::timeline::{Figures, Interval, Laid, LaneFigures, settle_all};

/// Timelines that are kept.
pub const KEPT_TIMELINES: usize = 4;
/// The most steps that a recording has; each takes up to half a mebibyte.
pub const MAX_RECORDED_STEPS: usize = 64;
/// Parts of graphs that a recording keeps for each of its steps.
const PARTS_A_STEP: usize = 512;

/// An armed step, laid out in time. A span that was read to start before the end
/// of the one before it on its stream, by no more than what reading rounds, starts
/// at that end: figures and spans agree to the nanosecond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeline {
    /// How many steps came before it.
    pub step: u64,
    /// What else is known of it; `None` where it left no record yet.
    pub record: Option<StepRecord>,
    /// The spans of its lanes, in the order of their starts.
    pub lanes: Vec<TimelineSpan>,
    /// Its launches, on each stream in the order of their begins.
    pub launches: Vec<TimelineSpan>,
    /// Its regions, on each stream in the order of their begins.
    pub regions: Vec<TimelineSpan>,
    /// What marks told of its graphs that ran as twins, in the order of their begins.
    pub parts: Vec<TimelinePart>,
    /// How the time of each lane was spent, by index.
    pub figures: Vec<LaneFigures>,
    /// The same of all lanes together.
    pub device: LaneFigures,
}

/// A span of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimelineSpan {
    /// GPU nanoseconds from the step's anchor to its start.
    pub start_ns: i64,
    /// GPU nanoseconds that it took.
    pub ns: u64,
    /// The stream of its end.
    pub stream: u64,
    /// The lane itself, or the one that a launch or a region is of.
    pub lane: Option<usize>,
    /// The row of a launch or a region, as
    /// [`KernelTime::func`](crate::kernel::KernelTime); `None`: a lane, or one that
    /// found the table full.
    pub func: Option<u64>,
}

/// The timelines of the next armed steps, as
/// [`Telemetry::record_steps`](crate::Telemetry::record_steps) or
/// [`record_when`](crate::Telemetry::record_when) asked for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recording {
    /// How many steps were asked for.
    pub steps: usize,
    /// Those that there are so far, the oldest first.
    pub timelines: Vec<Timeline>,
    /// The slow step after which they were recorded, if it is by such a step.
    pub slow: Option<StepRecord>,
}

impl Recording {
    /// Every step that was asked for is there.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.timelines.len() == self.steps
    }
}

/// More steps than a recording can have.
///
/// ```
/// use metrale_telemetry::Telemetry;
/// use metrale_telemetry::kernel::MAX_RECORDED_STEPS;
///
/// let error = Telemetry::new().record_steps(MAX_RECORDED_STEPS + 1).unwrap_err();
/// assert_eq!(error.to_string(), "65 steps are to be recorded: at most 64 can be");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{asked} steps are to be recorded: at most {MAX_RECORDED_STEPS} can be")]
#[non_exhaustive]
pub struct TooManyStepsError {
    /// How many were asked for.
    pub asked: usize,
}

/// A step as it is folded.
pub(in crate::kernel) struct LaidOut<'a> {
    pub(in crate::kernel) number: u64,
    pub(in crate::kernel) spans: &'a Laid<'a>,
    pub(in crate::kernel) figures: &'a Figures,
}

#[derive(Default)]
struct Kept {
    step: u64,
    record: Option<StepRecord>,
    /// First its lanes, then its launches, then its regions.
    spans: Vec<Interval>,
    lanes: usize,
    launches: usize,
    figures: Figures,
}

impl Kept {
    fn new() -> Self {
        Self { spans: Vec::with_capacity(MAX_STEP_SPANS), ..Self::default() }
    }

    /// Takes a step of at most [`MAX_STEP_SPANS`].
    fn set(&mut self, step: &LaidOut<'_>, record: Option<&StepRecord>) {
        self.step = step.number;
        self.record = record.copied();
        self.lanes = step.spans.lanes.len();
        self.launches = step.spans.launches.len();
        self.spans.clear();
        self.spans.extend_from_slice(step.spans.lanes);
        self.spans.extend_from_slice(step.spans.launches);
        self.spans.extend_from_slice(step.spans.regions);
        self.figures = *step.figures;
    }

    /// The step has left its record; whether it is this one.
    fn add_record(&mut self, record: &StepRecord) -> bool {
        let is_own = self.step == record.number && !self.spans.is_empty();
        if is_own {
            self.record = Some(*record);
        }
        is_own
    }

    /// `func` tells the handle of a row, `named` how many lanes there are.
    fn read(
        &self,
        named: usize,
        func: &impl Fn(u16) -> Option<u64>,
        insides: &Insides,
    ) -> Timeline {
        let span = |span: &Interval| TimelineSpan {
            start_ns: span.start_ns,
            ns: span.ns,
            stream: span.stream,
            lane: span.lane(),
            func: func(span.row),
        };
        let mut spans = self.spans.clone();
        let (lanes, others) = spans.split_at_mut(self.lanes);
        let (launches, regions) = others.split_at_mut(self.launches);
        settle_all(lanes, launches, regions);
        let launches: Vec<_> = launches.iter().map(span).collect();
        Timeline {
            step: self.step,
            record: self.record,
            lanes: lanes.iter().map(span).collect(),
            parts: insides.of(self.step, &launches),
            launches,
            regions: regions.iter().map(span).collect(),
            figures: self.figures.lanes.iter().take(named).copied().collect(),
            device: self.figures.device,
        }
    }
}

/// See the module.
pub(in crate::kernel) struct Timelines {
    last: Vec<Kept>,
    /// Steps so far; the next one has the place of this number.
    total: usize,
    insides: Insides,
    recording: Option<RecordedSteps>,
}

/// A recording that is filled.
pub(in crate::kernel) struct RecordedSteps {
    /// As many as were asked for.
    steps: Vec<Kept>,
    /// How many of them are there.
    taken: usize,
    insides: Insides,
    /// It begins, anew each time, as this says; `None`: it began when it was
    /// asked for.
    trigger: Option<Trigger>,
}

impl RecordedSteps {
    /// Takes the memory; `None` for no steps.
    pub(in crate::kernel) fn new(
        steps: usize,
        when: Option<SlowStep>,
    ) -> Result<Option<Self>, TooManyStepsError> {
        match steps {
            0 => Ok(None),
            1..=MAX_RECORDED_STEPS => Ok(Some(Self {
                steps: (0..steps).map(|_| Kept::new()).collect(),
                taken: 0,
                insides: Insides::of_recording(steps * PARTS_A_STEP),
                trigger: when.map(Trigger::new),
            })),
            asked => Err(TooManyStepsError { asked }),
        }
    }

    fn waits(&self) -> bool {
        self.trigger.as_ref().is_some_and(|trigger| trigger.fired.is_none())
    }

    /// Whether a step is among those that are there, or may yet be.
    fn admits(&self, step: u64) -> bool {
        let has_room = self.taken < self.steps.len();
        let mut taken = self.steps[..self.taken].iter();
        !self.waits() && (has_room || taken.any(|kept| kept.step == step))
    }

    /// Where the next step goes, while there is room and it has begun.
    fn next(&mut self) -> Option<&mut Kept> {
        let waits = self.waits();
        let next = self.steps.get_mut(self.taken).filter(|_| !waits)?;
        self.taken += 1;
        Some(next)
    }
}

impl Timelines {
    pub(super) const fn new() -> Self {
        Self { last: Vec::new(), total: 0, insides: Insides::NONE, recording: None }
    }

    pub(super) fn take_memory(&mut self) {
        self.last.resize_with(KEPT_TIMELINES, Kept::new);
        self.insides = Insides::of_last();
    }

    /// Keeps a step, and its record if it left one; after
    /// [`take_memory`](Self::take_memory) without allocating.
    pub(super) fn keep(&mut self, step: &LaidOut<'_>, record: Option<&StepRecord>) {
        if let Some(place) = self.last.get_mut(self.total % KEPT_TIMELINES) {
            place.set(step, record);
            self.total += 1;
        }
        if let Some(recording) = &mut self.recording
            && let Some(place) = recording.next()
        {
            place.set(step, record);
        }
    }

    /// A step that ended at `ended_ns` left its record; `recent` are those before.
    pub(super) fn look_at(&mut self, step: &StepRecord, ended_ns: u64, recent: &[StepRecord]) {
        if let Some(recording) = &mut self.recording
            && let Some(trigger) = &mut recording.trigger
            && trigger.fires(step, ended_ns, recent)
        {
            recording.taken = 0;
            recording.insides.clear();
        }
    }

    /// An armed step left its record.
    pub(super) fn add_record(&mut self, record: &StepRecord) {
        self.last.iter_mut().any(|kept| kept.add_record(record));
        if let Some(recording) = &mut self.recording {
            let taken = recording.steps[..recording.taken].iter_mut();
            taken.rev().any(|kept| kept.add_record(record));
        }
    }

    /// The marks of a twin's launch were read.
    pub(in crate::kernel) fn add_parts(
        &mut self,
        launch: TwinLaunch,
        parts: impl Iterator<Item = GraphPart>,
    ) {
        let mut recording = self.recording.as_mut().filter(|own| own.admits(launch.step));
        for part in parts {
            self.insides.add(launch, part);
            if let Some(recording) = &mut recording {
                recording.insides.add(launch, part);
            }
        }
    }

    /// Begins another recording; returns the one before.
    pub(in crate::kernel) fn record(
        &mut self,
        recording: Option<RecordedSteps>,
    ) -> Option<RecordedSteps> {
        std::mem::replace(&mut self.recording, recording)
    }

    /// The last ones, the oldest first; see [`Kept::read`].
    pub(in crate::kernel) fn read(
        &self,
        named: usize,
        func: impl Fn(u16) -> Option<u64>,
    ) -> Vec<Timeline> {
        let steps = self.total.saturating_sub(KEPT_TIMELINES)..self.total;
        let kept = steps.filter_map(|at| self.last.get(at % KEPT_TIMELINES));
        kept.map(|kept| kept.read(named, &func, &self.insides)).collect()
    }

    /// The recording, if there is one.
    pub(in crate::kernel) fn read_recording(
        &self,
        named: usize,
        func: impl Fn(u16) -> Option<u64>,
    ) -> Option<Recording> {
        let recording = self.recording.as_ref()?;
        let taken = recording.steps.iter().take(recording.taken);
        Some(Recording {
            steps: recording.steps.len(),
            timelines: taken.map(|kept| kept.read(named, &func, &recording.insides)).collect(),
            slow: (recording.trigger.as_ref())
                .and_then(|trigger| trigger.fired.as_ref())
                .map(|(step, _)| *step),
        })
    }
}
