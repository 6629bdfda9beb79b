// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random programs of steps against plain sums over their spans.

use super::rig::{LANES, Rig, Work};
use crate::kernel::{LaneRecord, SpanKey, SpanPoll, SpanToken};
use crate::sampling::Sampling;
use crate::sync::relaxed::lock;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Operation {
    NewStep,
    /// Begins a span of the step that was begun so many before the last; no
    /// kernel: the lane's own, if none of it is open.
    Begin {
        back: u32,
        kernel: Option<u64>,
        lane: usize,
        stream: u64,
    },
    End(usize),
    /// The end cannot be recorded.
    EndFails(usize),
    Cancel(usize),
    /// The ring has no slot for a launch.
    Drop {
        back: u32,
    },
    /// The stream admits no span.
    Refuse {
        back: u32,
    },
    /// What comes of a span that was ended: its time, or a failure.
    Answer {
        at: usize,
        fails: bool,
    },
    Close {
        back: u32,
    },
    Pass {
        is_read: bool,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    let back = || prop_oneof![6 => Just(0u32), 3 => 0..4u32, 1 => 0..8u32];
    let kernel = prop_oneof![1 => Just(None), 2 => (1..5u64).prop_map(|func| Some(func << 8))];
    let rarely = || prop::bool::weighted(0.1);
    prop_oneof![
        6 => Just(Operation::NewStep),
        24 => (back(), kernel, 0..LANES, 0..3u64)
            .prop_map(|(back, kernel, lane, stream)| Operation::Begin { back, kernel, lane, stream }),
        20 => (0..6usize).prop_map(Operation::End),
        1 => (0..6usize).prop_map(Operation::EndFails),
        2 => (0..6usize).prop_map(Operation::Cancel),
        1 => back().prop_map(|back| Operation::Drop { back }),
        1 => back().prop_map(|back| Operation::Refuse { back }),
        16 => (0..6usize, rarely()).prop_map(|(at, fails)| Operation::Answer { at, fails }),
        5 => back().prop_map(|back| Operation::Close { back }),
        8 => prop::bool::weighted(0.2).prop_map(|is_read| Operation::Pass { is_read }),
    ]
}

/// A step, said plainly.
#[derive(Clone, Debug, Default)]
struct Plain {
    closed: bool,
    lost: bool,
    /// Lane spans that landed: how many, and their time.
    lanes: [(u64, u64); LANES],
    kernels: BTreeMap<(usize, u64), u64>,
    record: PlainRecord,
}

/// What the step's record is to tell.
#[derive(Clone, Debug, Default)]
struct PlainRecord {
    closed: bool,
    lost: bool,
    /// A lane began after the close: what is told of the lanes depends on when
    /// it landed.
    late: bool,
    lanes: [(u32, u64); LANES],
}

struct OpenSpan {
    token: SpanToken,
    step: u32,
    work: Work,
    /// It began when its step was closed.
    late: bool,
}

/// The steps and the rig side by side.
struct Program {
    rig: Rig,
    steps: Vec<Plain>,
    open: Vec<OpenSpan>,
    ended: Vec<OpenSpan>,
    late_spans: u64,
    /// Time of lane spans that are in no step.
    beside: [u64; LANES],
    /// Grows by more than a place is rounded by.
    now_ns: i64,
}

impl Program {
    fn new() -> Self {
        let rig = Rig::new(512);
        rig.number();
        Self {
            rig,
            steps: vec![Plain::default()],
            open: Vec::new(),
            ended: Vec::new(),
            late_spans: 0,
            beside: [0; LANES],
            now_ns: 0,
        }
    }

    fn step(&self, back: u32) -> u32 {
        self.rig.newest.saturating_sub(back)
    }

    fn begin(&mut self, step: u32, key: SpanKey, lane: usize, stream: u64) {
        let same = |span: &OpenSpan| span.step == step && span.work.key == key;
        if matches!(key, SpanKey::Lane(_)) && self.open.iter().any(same) {
            return;
        }
        let work = Work { key, lane, stream, start_ns: self.now_ns, ns: 0 };
        let plain = &mut self.steps[step as usize];
        plain.record.late |= plain.record.closed && matches!(key, SpanKey::Lane(_));
        let late = plain.closed;
        self.late_spans += u64::from(late);
        let token = self.rig.begin(step, work).expect("a free slot");
        self.open.push(OpenSpan { token, step, work, late });
    }

    fn end(&mut self, at: usize) {
        let mut span = self.open.remove(at);
        span.work.ns = (self.now_ns - span.work.start_ns) as u64;
        self.rig.end(span.token, span.work);
        self.ended.push(span);
    }

    fn lose(&mut self, span: &OpenSpan) {
        let is_lane = matches!(span.work.key, SpanKey::Lane(_));
        self.steps[span.step as usize].record.lost |= is_lane;
        self.steps[span.step as usize].lost |= !span.late;
    }

    /// A span came to nothing before its end was recorded.
    fn leave(&self, span: &OpenSpan, lost: bool) {
        if matches!(span.work.key, SpanKey::Lane(_)) {
            let open = &self.rig.into.open_steps;
            open.leave(u64::from(span.step), lost);
        }
    }

    fn answer(&mut self, at: usize, fails: bool) {
        let span = self.ended.remove(at);
        if fails {
            self.rig.answer(span.token, SpanPoll::Failed);
            self.lose(&span);
            return;
        }
        let ns = span.work.ns;
        self.rig.answer(span.token, SpanPoll::Ready(ns));
        let step = &mut self.steps[span.step as usize];
        if let SpanKey::Lane(lane) = span.work.key {
            let (spans, sum) = &mut step.record.lanes[lane];
            (*spans, *sum) = (*spans + 1, *sum + ns);
        }
        match span.work.key {
            SpanKey::Lane(lane) if span.late => self.beside[lane] += ns,
            SpanKey::Lane(lane) => {
                let (spans, sum) = &mut step.lanes[lane];
                (*spans, *sum) = (*spans + 1, *sum + ns);
            }
            SpanKey::Kernel(_) if span.late => {}
            SpanKey::Kernel(func) => {
                *step.kernels.entry((span.work.lane, func)).or_default() += ns;
            }
        }
    }

    fn pass(&mut self, is_read: bool) {
        if !is_read {
            // Four later steps close one that has begun spans.
            let closed = self.rig.newest.saturating_sub(3);
            for (step, plain) in (0..closed).zip(&mut self.steps) {
                plain.closed |= self.rig.table.follows(step);
            }
            self.rig.pass();
            return;
        }
        let into = std::mem::take(&mut self.rig.into);
        let reader = lock(&into.folded);
        let mut folding = self.rig.fold.harvest(&self.rig.table, &into);
        self.rig.ring.harvest_with(|span| folding.take(span));
        folding.finish(self.rig.newest, None);
        drop(reader);
        self.rig.into = into;
    }

    fn make(&mut self, operation: &Operation) {
        self.now_ns += 5;
        let pick = |at: usize, of: usize| (of > 0).then(|| at % of.max(1));
        match *operation {
            Operation::NewStep if self.steps.len() < 60 => {
                self.steps.push(Plain::default());
                self.rig.newest += 1;
                self.rig.number();
            }
            Operation::NewStep => {}
            Operation::Begin { back, kernel, lane, stream } => {
                let key = kernel.map_or(SpanKey::Lane(lane), SpanKey::Kernel);
                self.begin(self.step(back), key, lane, stream);
            }
            Operation::End(at) => {
                if let Some(at) = pick(at, self.open.len()) {
                    self.end(at);
                }
            }
            Operation::EndFails(at) => {
                if let Some(at) = pick(at, self.open.len()) {
                    let span = self.open.remove(at);
                    self.rig.fails(true);
                    self.rig.ring.end_span(span.token, 1).unwrap_err();
                    self.rig.fails(false);
                    self.leave(&span, true);
                    if !span.late {
                        self.rig.table.lose(span.step, Some(span.work.lane));
                    }
                    self.lose(&span);
                }
            }
            Operation::Cancel(at) => {
                if let Some(at) = pick(at, self.open.len()) {
                    let span = self.open.remove(at);
                    self.rig.ring.cancel(span.token).unwrap();
                    self.leave(&span, false);
                    if !span.late {
                        self.rig.table.withdraw(span.step);
                    }
                }
            }
            Operation::Drop { back } => {
                let step = self.step(back);
                self.begin(step, SpanKey::Kernel(1), 0, 0);
                let span = self.open.pop().expect("it was begun");
                self.rig.ring.cancel(span.token).unwrap();
                if !span.late {
                    self.rig.table.lose(step, Some(span.work.lane));
                }
                self.lose(&span);
            }
            Operation::Refuse { back } => {
                let step = self.step(back);
                let follows = self.rig.table.follows(step);
                self.rig.table.miss(step, None);
                let plain = &mut self.steps[step as usize];
                // Of a step that is not followed no span is counted after that.
                plain.lost |= follows;
                plain.closed |= !follows;
            }
            Operation::Answer { at, fails } => {
                if let Some(at) = pick(at, self.ended.len()) {
                    self.answer(at, fails);
                }
            }
            Operation::Close { back } => {
                let step = self.step(back);
                self.rig.table.close(step);
                self.rig.into.open_steps.close(u64::from(step), None);
                self.steps[step as usize].record.closed = true;
                // A step without spans is not followed, so cannot be closed yet.
                self.steps[step as usize].closed |= self.rig.table.follows(step);
            }
            Operation::Pass { is_read } => self.pass(is_read),
        }
    }

    /// Ends, answers and closes all, and passes for the last time.
    fn over(&mut self) {
        while !self.open.is_empty() {
            self.now_ns += 5;
            self.end(0);
        }
        while !self.ended.is_empty() {
            self.answer(0, false);
        }
        for step in 0..=self.rig.newest {
            self.rig.table.close(step);
            self.rig.into.open_steps.close(u64::from(step), None);
        }
        self.rig.pass();
    }

    /// Each step left one record, with what its lanes took.
    fn check_records(&self) -> Result<(), TestCaseError> {
        let mut records = self.rig.into.recent_steps(true).steps;
        records.sort_unstable_by_key(|record| record.number);
        prop_assert_eq!(records.len(), self.steps.len());
        for (at, (record, plain)) in records.iter().zip(&self.steps).enumerate() {
            prop_assert_eq!(record.number, at as u64);
            prop_assert_eq!(record.shape.map(|shape| shape.requests), Some(at as u32));
            let plain = &plain.record;
            if !plain.late {
                prop_assert_eq!(record.incomplete, plain.lost);
                let of = |lane: &LaneRecord| (lane.spans, lane.gpu_ns);
                let lanes: Vec<_> = record.lanes[..LANES].iter().map(of).collect();
                prop_assert_eq!(&lanes[..], &plain.lanes[..]);
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let folded = self.rig.folded();
        let losses = folded.losses();
        prop_assert!(self.rig.table.is_idle());
        let lost = self.steps.iter().filter(|step| step.lost).count();
        prop_assert_eq!(losses.incomplete_steps, lost as u64);
        prop_assert_eq!(losses.late_spans, self.late_spans);
        prop_assert_eq!((losses.unplaced_steps, losses.rowless_spans), (0, 0));
        let complete = || self.steps.iter().filter(|step| !step.lost);
        let unpaired = complete().filter(|step| {
            let mut of = step.kernels.keys();
            of.any(|(lane, _)| step.lanes[*lane].0 == 0)
        });
        prop_assert_eq!(losses.unpaired_steps, unpaired.count() as u64);
        for lane in 0..LANES {
            let ns = |lost| {
                let of = self.steps.iter().filter(move |step| step.lost == lost);
                of.map(|step| step.lanes[lane].1).sum::<u64>()
            };
            let expected = (ns(false), ns(true) + self.beside[lane]);
            prop_assert_eq!(self.rig.lane_ns(lane), expected);
            let total_ns = self.rig.into.lane_times(lane).unwrap().snapshot().sum_ns();
            prop_assert_eq!(expected.0 + expected.1, total_ns);
            let estimate = folded.lane_estimate(lane);
            let steps = complete().filter(|step| step.lanes[lane].0 > 0);
            prop_assert_eq!(estimate.armed_steps, steps.count() as u64);
            prop_assert_eq!((estimate.armed_ns, estimate.total_ns), (expected.0, total_ns));
        }
        let mut sums: BTreeMap<(usize, u64), (u64, u64)> = BTreeMap::new();
        for step in complete() {
            for (kernel, ns) in &step.kernels {
                if step.lanes[kernel.0].0 > 0 {
                    let (steps, sum) = sums.entry(*kernel).or_default();
                    (*steps, *sum) = (*steps + 1, *sum + ns);
                }
            }
        }
        let found = folded.kernel_estimates(Sampling::Hashed, 1);
        prop_assert_eq!(found.len(), sums.len());
        for row in found {
            let (steps, sum_ns) = sums[&(row.lane, row.func)];
            prop_assert_eq!(row.estimate.steps, steps);
            let sampled_ns = folded.lane_estimate(row.lane).armed_ns as f64;
            let off = row.estimate.share * sampled_ns - sum_ns as f64;
            prop_assert!(off.abs() < 1e-6, "{:?}, not {}", row, sum_ns);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn what_is_folded_is_the_plain_sum(operations in prop::collection::vec(operation(), 1..250)) {
        let mut program = Program::new();
        operations.iter().for_each(|operation| program.make(operation));
        program.over();
        program.check()?;
        program.check_records()?;
    }
}
