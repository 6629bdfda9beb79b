// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorder in small: a step's spans go through the ring, a pass places them
//! from the step's anchor, and the fold puts them together.

use metrale_loom_tests::{Bound, Found, Pairs, Steps, beside, model, next_on_entry};
use metrale_telemetry::kernel::{
    Edge, EventOps, KernelInstruments, Place, SpanKey, SpanPoll, SpanRing, SpanTag, StepId,
    StepLosses,
};
use metrale_telemetry::runtime::{Anchor, Fold};
use std::sync::{Arc, Mutex};

const TRACK: u32 = 0;
const STREAM: u64 = 1;

/// Pairs, and the anchors of steps.
#[derive(Debug)]
struct Events(Pairs, Steps);

impl EventOps for Events {
    fn record(&self, slot: usize, edge: Edge, stream: u64) -> bool {
        self.0.record(slot, edge, stream)
    }

    fn poll(&self, slot: usize) -> SpanPoll {
        self.0.poll(slot)
    }

    fn place(&self, track: u32, _: usize) -> Place {
        match self.1.read_anchor(track) {
            Anchor::Coming => Place::Pending,
            Anchor::At(_) => Place::At(0),
            Anchor::None => Place::Unknown,
        }
    }
}

#[derive(Clone)]
struct Recorder {
    steps: Steps,
    ring: Arc<SpanRing<Events>>,
    into: Arc<KernelInstruments>,
    /// Outside the model: one thread of each model harvests.
    fold: Arc<Mutex<Fold>>,
}

impl Recorder {
    fn new(slots: usize) -> Self {
        let steps = Steps::default();
        let events = Events(Pairs::new(slots), steps.clone());
        Self {
            steps,
            ring: Arc::new(SpanRing::new(events, slots)),
            into: Arc::default(),
            fold: Arc::default(),
        }
    }

    /// A span of the step on `track`; whether it is in it.
    fn span(&self, track: u32, key: SpanKey) -> bool {
        let found = self.steps.enter(track);
        let tag = SpanTag {
            lane: Some(0),
            armed: true,
            step: match found {
                Found::Alone => StepId::Unknown,
                Found::First | Found::Counted => StepId::Track(track),
            },
        };
        let token = self.ring.begin_admitted(key, tag, STREAM);
        let token = token.expect("a free slot");
        self.ring.end_span(token, STREAM).expect("it is open");
        found != Found::Alone
    }

    fn close(&self, track: u32) {
        self.steps.close(track);
    }

    fn harvest(&self, newest: u32) {
        let mut fold = self.fold.lock().expect("nobody panicked");
        let mut folding = fold.harvest(&self.steps.table, &self.into);
        self.ring.harvest_with(|span| folding.take(span));
        folding.finish(newest, None);
    }

    fn losses(&self) -> StepLosses {
        self.into.step_losses()
    }
}

fn late(late_spans: u64) -> StepLosses {
    let mut losses = StepLosses::default();
    losses.late_spans = late_spans;
    losses
}

#[test]
fn a_step_is_folded_once_and_whole() {
    model(Bound::Preemptions(3), || {
        let recorder = Recorder::new(1);
        let serves = beside(&recorder, |recorder| {
            assert!(recorder.span(TRACK, SpanKey::Lane(0)));
            recorder.close(TRACK);
        });
        recorder.harvest(TRACK);
        serves();
        recorder.harvest(TRACK);
        assert!(recorder.steps.table.is_idle(), "it was not folded");
        assert_eq!(recorder.losses(), StepLosses::default());
    });
}

/// A span on another thread than the one that closes its step: if it was
/// counted it is waited for, and if not it is late.
#[test]
fn a_step_waits_for_the_spans_that_it_counted() {
    model(Bound::Preemptions(2), || {
        let recorder = Recorder::new(2);
        assert!(recorder.span(TRACK, SpanKey::Lane(0)));
        let launches = beside(&recorder, |recorder| recorder.span(TRACK, SpanKey::Kernel(5)));
        recorder.close(TRACK);
        recorder.harvest(TRACK);
        let counted = launches();
        recorder.harvest(TRACK);
        assert!(recorder.steps.table.is_idle(), "it was not folded");
        assert_eq!(recorder.losses(), late(u64::from(!counted)));
    });
}

/// A step that is given up while the next one of its entry begins.
#[test]
fn a_step_is_given_up_for_the_next_one() {
    model(Bound::Preemptions(2), || {
        let recorder = Recorder::new(2);
        let next = next_on_entry(TRACK);
        assert_eq!(recorder.steps.enter(TRACK), Found::First);
        let serves = beside(&recorder, move |recorder| {
            let followed = recorder.span(next, SpanKey::Lane(0));
            recorder.close(next);
            followed
        });
        recorder.harvest(next);
        let followed = serves();
        recorder.harvest(next);
        assert!(recorder.steps.table.is_idle(), "one was not folded");
        let mut losses = StepLosses::default();
        losses.incomplete_steps = 1;
        losses.unplaced_steps = u64::from(!followed);
        assert_eq!(recorder.losses(), losses);
    });
}
