// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which a pass lands: whatever was dropped before, of the spans
//! that are closed when a pass begins those of one stream land in the order of
//! their begins.

use crate::source::Scripted;
use metrale_telemetry::kernel::{Harvested, SpanKey, SpanPoll, SpanRing, SpanTag, SpanToken};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Call {
    /// Begins a span, which is dropped where its slot is in use.
    Begin,
    /// Ends the open span that was begun so many before the last, on a stream.
    End {
        back: usize,
        stream: u64,
    },
    /// The GPU is done with a slot's pair, or not.
    Done(usize, bool),
    Harvest,
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        6 => Just(Call::Begin),
        5 => (0..6usize, 0..100u64).prop_map(|(back, stream)| Call::End { back, stream }),
        3 => (0..7usize, any::<bool>()).prop_map(|(slot, done)| Call::Done(slot, done)),
        2 => Just(Call::Harvest),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn spans_of_a_stream_land_in_the_order_of_their_begins(
        slots in 1..8usize,
        streams in prop_oneof![Just(1u64), Just(2), Just(3), Just(100)],
        calls in prop::collection::vec(call(), 1..200),
    ) {
        let ring = SpanRing::new(Scripted::new(slots), slots);
        ring.ops().polls(true);
        let mut begun = 0u64;
        let mut open: Vec<(SpanToken, u64)> = Vec::new();
        for call in calls {
            match call {
                Call::Begin => {
                    begun += 1;
                    let key = SpanKey::Kernel(begun);
                    if let Ok(token) = ring.begin_tagged(key, SpanTag::default(), 0) {
                        open.push((token, begun));
                    }
                }
                Call::End { back, stream } => {
                    if let Some(at) = open.len().checked_sub(back + 1) {
                        let (token, _) = open.remove(at);
                        prop_assert_eq!(ring.end_span(token, stream % streams), Ok(()));
                    }
                }
                Call::Done(slot, done) if slot < slots => {
                    let answer = if done { SpanPoll::Ready(1) } else { SpanPoll::Pending };
                    ring.ops().answers(slot, answer);
                }
                Call::Done(..) => {}
                Call::Harvest => {
                    let mut last = std::collections::HashMap::new();
                    let mut early = None;
                    ring.harvest_with(|span| {
                        if let Harvested::Landed(landed) = span
                            && let SpanKey::Kernel(number) = landed.key
                            && let Some(before) = last.insert(landed.stream, number)
                            && before > number
                        {
                            early = Some((before, number));
                        }
                    });
                    prop_assert_eq!(early, None, "the first landed before the second");
                }
            }
        }
    }
}
