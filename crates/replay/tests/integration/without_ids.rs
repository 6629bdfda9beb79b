// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels whose correlation is 0 go by their stamps into the step around them.

use crate::common::planned;
use crate::common::record::{DECODE, PREFILL, kernel, launch, read, step};
use metrale_replay::plan::{self, Plan, Timing, What};
use metrale_replay::steps::Lane;
use metrale_replay::trace::{Annotation, Call, CallKind, StreamId, Trace, Work, WorkKind};
use proptest::prelude::*;

/// The step of each kernel, by its name.
fn placed(plan: &Plan) -> Vec<(String, Option<u32>)> {
    let of = |op: &plan::Op| match op.what {
        What::Kernel { kernel, .. } => Some((plan.kernels[kernel as usize].clone(), op.step)),
        _ => None,
    };
    let mut placed: Vec<_> = plan.ops.iter().filter_map(of).collect();
    placed.sort();
    placed
}

#[test]
fn by_the_step_around_them_on_the_device() {
    let events = [
        step(PREFILL, 10, 20),
        launch(1, 12),
        launch(2, 14),
        step(DECODE, 40, 20),
        launch(3, 42),
        launch(4, 44),
        kernel("before", 7, 0, 90, 5),
        kernel("first", 7, 1, 100, 50),
        kernel("in the first", 7, 0, 160, 20),
        kernel("beside the first", 20, 0, 100, 100),
        kernel("last", 7, 2, 190, 10),
        kernel("across its end", 20, 0, 200, 1),
        kernel("decode", 7, 3, 300, 10),
        kernel("in decode", 7, 0, 311, 4),
        kernel("decode", 7, 4, 320, 10),
        // With an id, and no launch record of it: outside every step.
        kernel("unlaunched", 20, 99, 312, 3),
        kernel("after", 7, 0, 340, 5),
    ];
    for timing in [Timing::Ideal, Timing::Honest] {
        let plan = planned(&read(&events), timing);
        let expected = [
            ("across its end", None),
            ("after", None),
            ("before", None),
            ("beside the first", Some(0)),
            ("decode", Some(1)),
            ("decode", Some(1)),
            ("first", Some(0)),
            ("in decode", Some(1)),
            ("in the first", Some(0)),
            ("last", Some(0)),
            ("unlaunched", None),
        ];
        let expected = expected.map(|(name, step)| (name.to_owned(), step));
        assert_eq!(placed(&plan), expected, "{timing:?}");
        assert_eq!(
            plan.notes,
            [
                "3 pieces of GPU work have no correlation id: in the step around them on the device",
                "4 pieces of GPU work have no launch record: admit",
            ]
        );
        let decode = plan.spans.iter().find(|span| span.lane == Lane::Decode);
        assert_eq!(decode.map(|span| span.span_ns), Some(30_000));
    }
}

fn step_name(step: u32) -> String {
    format!("step[DECODE bs={step}]")
}

/// Four steps of 10 ns on the host; the works with an id are launched in theirs,
/// and named by their place in the list.
fn trace(works: &[(u32, bool, i64, u64)]) -> Trace {
    let stream = StreamId { device: 0, stream: 0 };
    let mut trace = Trace { streams: vec![stream; works.len()], ..Trace::default() };
    for step in 0..4 {
        trace.annotations.push(Annotation {
            start_ns: i64::from(step) * 10,
            end_ns: i64::from(step) * 10 + 10,
            process: 0,
            name: trace.names.intern(step_name(step).as_bytes()),
            id: None,
        });
    }
    for (i, &(step, has_id, start_ns, duration_ns)) in (1..).zip(works) {
        let correlation = std::num::NonZeroI64::new(if has_id { i } else { 0 });
        if let Some(correlation) = correlation {
            trace.calls.push(Call {
                at_ns: i64::from(step) * 10,
                correlation,
                process: 0,
                kind: CallKind::Launch,
            });
        }
        let kernel = trace.names.intern(format!("{:02}", i - 1).as_bytes());
        trace.work.push(Work {
            start_ns,
            duration_ns,
            // Each on a stream of its own, so that none waits for another.
            stream: i as u32 - 1,
            correlation,
            kind: WorkKind::Kernel(kernel),
        });
    }
    trace.ids.intern(b"0");
    trace
}

proptest! {
    /// Against a look at every step for every kernel.
    #[test]
    fn as_a_slow_search_finds_them(works in prop::collection::vec(
        (0u32..4, any::<bool>(), 0i64..40, 0u64..20), 1..24))
    {
        let plan = planned(&trace(&works), Timing::Ideal);
        let ends = |&(_, _, start, duration): &(u32, bool, i64, u64)| start + duration as i64;
        let extent = |step: u32| {
            let of: Vec<_> = works.iter().filter(|w| w.1 && w.0 == step).collect();
            let start = of.iter().map(|w| w.2).min()?;
            Some((start, of.iter().map(|w| ends(w)).max()?))
        };
        let mut expected = Vec::new();
        for (i, work) in works.iter().enumerate() {
            let around = (0..4).filter_map(|step| Some((extent(step)?, step)));
            let mut around: Vec<_> = around
                .filter(|((start, end), _)| *start <= work.2 && *end >= ends(work))
                .collect();
            around.sort_unstable();
            let step = match around[..] {
                _ if work.1 => Some(work.0),
                // Of two that begin at one moment either will do.
                [.., (one, _), (other, _)] if one.0 == other.0 => return Ok(()),
                [.., (_, step)] => Some(step),
                [] => None,
            };
            expected.push((format!("{i:02}"), step.map(step_name)));
        }
        let name = |step: u32| plan.steps[step as usize].name.clone();
        let found: Vec<_> = (placed(&plan).into_iter())
            .map(|(kernel, step)| (kernel, step.map(name)))
            .collect();
        prop_assert_eq!(found, expected);
    }
}
