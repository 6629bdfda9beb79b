// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often each stream is asked.

use super::scripted::{Bench, Call};
use crate::kernel::{SpanKey, SpanPoll};

const KERNEL: SpanKey = SpanKey::Kernel(5);

fn polls(calls: &[Call]) -> Vec<Call> {
    let is_poll = |call: &Call| matches!(call, Call::First(_) | Call::Next(_));
    calls.iter().copied().filter(is_poll).collect()
}

#[test]
fn a_thousand_pending_spans_of_one_stream_cost_one_poll() {
    let bench = Bench::new(1000);
    for _ in 0..1000 {
        bench.span(KERNEL, 1);
    }
    bench.script.calls();
    bench.harvest();
    assert_eq!(polls(&bench.script.calls()), [Call::First(0)]);
}

#[test]
fn a_stream_is_asked_first_once_then_next_until_it_says_wait() {
    let bench = Bench::new(8);
    for stream in [1, 2, 1, 2, 1, 1] {
        bench.span(KERNEL, stream);
    }
    for slot in [0, 2, 1] {
        bench.script.answer(slot, SpanPoll::Ready(1));
    }
    bench.script.calls();
    assert_eq!(bench.harvest(), 3);
    let expected = [
        Call::First(0),
        Call::First(1),
        Call::Next(2),
        Call::Next(3),
        Call::Next(4),
    ];
    assert_eq!(polls(&bench.script.calls()), expected);
}

#[test]
fn a_span_is_filed_under_the_stream_of_its_end() {
    let bench = Bench::new(4);
    bench.span(KERNEL, 1);
    let token = bench.begin(KERNEL, 1).unwrap();
    bench.ring.end(token, 2, &bench.instruments);
    bench.script.answer(1, SpanPoll::Ready(1));
    assert_eq!(bench.harvest(), 1, "stream 1 waits, stream 2 does not");
}

#[test]
fn with_more_waiting_streams_than_a_pass_remembers_each_gets_its_turn() {
    const STREAMS: u64 = 1_000;
    let bench = Bench::new(STREAMS as usize * 2);
    // Two spans on each stream: only the second may never be asked about.
    for stream in (0..STREAMS).chain(0..STREAMS) {
        bench.span(KERNEL, stream);
    }
    bench.script.calls();
    let mut asked = vec![0; STREAMS as usize];
    for _ in 0..8 {
        assert_eq!(bench.harvest(), 0);
        for call in polls(&bench.script.calls()) {
            match call {
                Call::First(slot) => asked[slot] += 1,
                other => panic!("{other:?}: its stream waits"),
            }
        }
    }
    assert_eq!(asked[..64], [8; 64]);
    assert!(asked.iter().all(|times| *times >= 2), "{asked:?}");
    (0..STREAMS as usize * 2).for_each(|slot| bench.script.answer(slot, SpanPoll::Ready(1)));
    assert_eq!(bench.harvest(), STREAMS as usize * 2);
}
