// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring does what the plain model does: the same slots, records, polls,
//! landings, losses and ledger after every single call.

use crate::plain::Plain;
use crate::source::{Event, REFUSED, Scripted, clock, clock_reads, set_clock};
use metrale_telemetry::kernel::{
    Harvested, Place, SpanKey, SpanPoll, SpanRing, SpanTag, SpanToken, StepId,
};
use proptest::prelude::*;
use std::time::Duration;

/// What a caller has in hand for a span.
#[derive(Clone, Debug)]
enum Name {
    /// A token that a begin gave, counted back from the newest; through its
    /// bits and back if so asked.
    Token { back: usize, bits: bool },
    /// A slot's number, of a ring of at most 6.
    Slot(usize),
    /// A token of another ring.
    Foreign,
}

#[derive(Clone, Debug)]
enum Call {
    Begin { kernel: bool, value: u64, tag: SpanTag, stream: u64, fails: bool },
    End { name: Name, stream: u64, fails: bool },
    Cancel(Name),
    Answer(usize, SpanPoll),
    Lies(usize, Place),
    Wait(u64),
    Harvest { polls: bool },
}

fn stream() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 1..=3u64, 1 => Just(REFUSED)]
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        8 => (0..6usize, any::<bool>()).prop_map(|(back, bits)| Name::Token { back, bits }),
        2 => (0..8usize).prop_map(Name::Slot),
        1 => Just(Name::Foreign),
    ]
}

fn step() -> impl Strategy<Value = StepId> {
    prop_oneof![
        Just(StepId::Unknown),
        (0..3u64).prop_map(StepId::Number),
        (0..3u32).prop_map(StepId::Track),
    ]
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        4 => (-1_000..1_000i64).prop_map(Place::At),
        1 => Just(Place::Pending),
        1 => Just(Place::Unknown),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let tag = (any::<bool>(), prop::option::of(0..3usize), step())
        .prop_map(|(armed, lane, step)| SpanTag { lane, armed, step });
    let answer = prop_oneof![
        4 => (0..1000u64).prop_map(SpanPoll::Ready),
        2 => Just(SpanPoll::Pending),
        1 => Just(SpanPoll::Failed),
    ];
    let fails = || prop::bool::weighted(0.1);
    prop_oneof![
        8 => (any::<bool>(), any::<u64>(), tag, stream(), fails()).prop_map(
            |(kernel, value, tag, stream, fails)| Call::Begin { kernel, value, tag, stream, fails }
        ),
        8 => (name(), stream(), fails())
            .prop_map(|(name, stream, fails)| Call::End { name, stream, fails }),
        1 => name().prop_map(Call::Cancel),
        5 => (0..6usize, answer).prop_map(|(slot, answer)| Call::Answer(slot, answer)),
        2 => (0..6usize, place()).prop_map(|(slot, place)| Call::Lies(slot, place)),
        2 => (0..40u64).prop_map(Call::Wait),
        4 => prop::bool::weighted(0.9).prop_map(|polls| Call::Harvest { polls }),
    ]
}

/// The ring and the model side by side.
struct Pair {
    ring: SpanRing<Scripted>,
    plain: Plain,
    issued: Vec<(SpanToken, u64)>,
    foreign: SpanToken,
    now_ns: u64,
}

impl Pair {
    fn new(slots: usize, reclaim_after_ns: Option<u64>, gaps: bool) -> Self {
        let other = SpanRing::new(Scripted::new(1), 1);
        let foreign = other.begin_tagged(SpanKey::Lane(0), SpanTag::default(), 1);
        let builder = SpanRing::builder(Scripted::new(slots), slots).clock(clock);
        let builder = if gaps { builder.gaps() } else { builder };
        let ring = match reclaim_after_ns {
            Some(after_ns) => builder.reclaim_after(Duration::from_nanos(after_ns)),
            None => builder,
        };
        set_clock(0);
        clock_reads();
        Self {
            ring: ring.build(),
            plain: Plain::new(slots, reclaim_after_ns, gaps),
            issued: Vec::new(),
            foreign: foreign.expect("a new ring has a free slot"),
            now_ns: 0,
        }
    }

    /// The token for `name`, and how the model knows the span.
    fn resolve(&self, name: &Name) -> (SpanToken, usize, Option<u64>) {
        match *name {
            Name::Token { back, bits } => {
                let Some(at) = self.issued.len().checked_sub(back + 1) else {
                    return (self.foreign, 0, Some(0));
                };
                let (token, id) = self.issued[at];
                let token = if bits { SpanToken::from_bits(token.to_bits()) } else { token };
                (token, token.slot(), Some(id))
            }
            Name::Slot(slot) => (SpanToken::from_slot(slot), slot, None),
            Name::Foreign => (self.foreign, 0, Some(0)),
        }
    }

    fn make(&mut self, call: &Call) -> Result<(), TestCaseError> {
        let source = self.ring.ops();
        match *call {
            Call::Begin { kernel, value, tag, stream, fails } => {
                source.fails(fails);
                let key = if kernel {
                    SpanKey::Kernel(value)
                } else {
                    SpanKey::Lane((value % 5) as usize)
                };
                let token = self.ring.begin_tagged(key, tag, stream);
                let expected = self.plain.begin(key, tag, stream, fails);
                prop_assert_eq!(token.map(SpanToken::slot), expected.map(|(slot, _)| slot));
                if let (Ok(token), Ok((_, id))) = (token, expected) {
                    self.issued.push((token, id));
                }
            }
            Call::End { ref name, stream, fails } => {
                source.fails(fails);
                let (token, slot, id) = self.resolve(name);
                let ended = self.ring.end_span(token, stream);
                prop_assert_eq!(ended, self.plain.end(slot, id, stream, fails));
            }
            Call::Cancel(ref name) => {
                let (token, slot, id) = self.resolve(name);
                prop_assert_eq!(self.ring.cancel(token), self.plain.cancel(slot, id));
            }
            Call::Answer(slot, answer) => {
                if slot < self.ring.slots() {
                    source.answers(slot, answer);
                    self.plain.answers(slot, answer);
                }
            }
            Call::Lies(slot, place) => {
                if slot < self.ring.slots() {
                    source.places(slot, place);
                    self.plain.places(slot, place);
                }
            }
            Call::Wait(ns) => {
                self.now_ns += ns;
                set_clock(self.now_ns);
                self.plain.set_clock(self.now_ns);
            }
            Call::Harvest { polls } => {
                source.polls(polls);
                let log = |span: Harvested| source.log(Event::from(span));
                prop_assert_eq!(self.ring.harvest_with(log), self.plain.harvest(polls));
                prop_assert_eq!(self.ring.is_idle(), self.plain.ledger().in_flight == 0);
            }
        }
        let (events, reads) = self.plain.take();
        prop_assert_eq!(self.ring.ops().events(), events);
        prop_assert_eq!(clock_reads(), reads, "reads of the clock");
        let ledger = self.ring.ledger();
        prop_assert!(ledger.closes(), "{ledger:?}");
        prop_assert_eq!(ledger, self.plain.ledger());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn a_ring_does_what_a_vector_of_slots_does(
        slots in 1..6usize,
        reclaim_after_ns in prop::option::of(0..60u64),
        gaps: bool,
        calls in prop::collection::vec(call(), 1..150),
    ) {
        let mut pair = Pair::new(slots, reclaim_after_ns, gaps);
        for call in &calls {
            pair.make(call)?;
        }
    }
}
