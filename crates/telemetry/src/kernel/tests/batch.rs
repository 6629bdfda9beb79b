// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a pass adds up is what its spans would have made one by one.

use crate::kernel::sink::Each;
use crate::kernel::{
    Edge, EstimateLosses, EventOps, Gaps, KERNEL_TABLE_SLOTS, KernelInstruments, LANE_DECODE,
    LANES, SpanKey, SpanPoll, SpanRing, SpanTag,
};
use crate::sampling::Sampling;
use proptest::prelude::*;
use std::sync::Mutex;

/// Every pair is done, and reads what it was told to.
#[derive(Default)]
struct Told(Mutex<Vec<u64>>);

impl EventOps for Told {
    fn record(&self, _: usize, _: Edge, _: u64) -> bool {
        true
    }
    fn poll(&self, slot: usize) -> SpanPoll {
        SpanPoll::Ready(self.0.lock().unwrap()[slot])
    }
    fn gap(&self, prev: usize, slot: usize) -> Option<u64> {
        (!(prev + slot).is_multiple_of(5)).then_some(100 * slot as u64)
    }
}

/// A span to be landed.
#[derive(Clone, Debug)]
struct Span {
    key: SpanKey,
    tag: SpanTag,
    ns: u64,
}

/// Passes over these spans, each pass a slice.
fn land<'a>(
    passes: impl Iterator<Item = &'a [Span]>,
    harvest: impl Fn(&SpanRing<Told>, &KernelInstruments) -> usize,
) -> Box<KernelInstruments> {
    let into = Box::new(KernelInstruments::new());
    for spans in passes {
        let told = Told(Mutex::new(spans.iter().map(|span| span.ns).collect()));
        let ring = SpanRing::builder(told, spans.len().max(1))
            .gaps(Gaps::WithinStep)
            .build();
        for span in spans {
            let token = ring.begin_into(span.key, span.tag, 1, &*into).unwrap();
            ring.end(token, 1, &into);
        }
        assert_eq!(harvest(&ring, &into), spans.len());
    }
    into
}

/// All that the instruments hold.
fn contents(of: &KernelInstruments) -> impl PartialEq + std::fmt::Debug {
    let mut kernels: Vec<_> = of.kernels();
    kernels.sort_unstable_by_key(|row| row.func);
    let kernels = kernels
        .iter()
        .map(|row| (row.func, row.total_ns, row.samples))
        .collect::<Vec<_>>();
    let lanes = (0..LANES.len()).map(|lane| {
        let of = [&of.lane[lane], &of.lane_gap[lane], &of.kernel_gap[lane]];
        let histograms = of.map(|it| (it.snapshot().count(), it.snapshot().sum_ns()));
        (histograms, lane)
    });
    let counts = (0..LANES.len()).map(|lane| {
        let armed_ns = of.lane_armed_ns[lane].get();
        (armed_ns, of.lane_kernel_ns[lane].get())
    });
    let estimates = (0..LANES.len()).map(|lane| of.lane_estimate(lane, Sampling::Hashed, 64));
    (
        kernels,
        lanes.collect::<Vec<_>>(),
        counts.collect::<Vec<_>>(),
        (of.kernel_gap_unknown.get(), of.table_full.get()),
        estimates.collect::<Vec<_>>(),
        of.kernel_estimates(Sampling::Hashed, 64),
        of.estimate_losses(),
    )
}

fn same(passes: &[Vec<Span>]) {
    let passes = || passes.iter().map(Vec::as_slice);
    let together = land(passes(), |ring, into| ring.harvest(into));
    let one_by_one = land(passes(), |ring, into| ring.pass(&Each(into)));
    assert_eq!(contents(&together), contents(&one_by_one));
}

fn span() -> impl Strategy<Value = Span> {
    let key = prop_oneof![
        1 => (0..4usize).prop_map(SpanKey::Lane),
        9 => (0..6u64).prop_map(|func| SpanKey::Kernel(func << 8)),
    ];
    let ns = prop_oneof![
        6 => 0..60_000u64,
        1 => (1u64 << 36) - 2..(1 << 36) + 2,
        1 => (1u64 << 37) - 2..(1 << 37) + 2,
        1 => 0..1u64 << 50,
    ];
    (key, ns).prop_map(|(key, ns)| Span {
        key,
        tag: SpanTag::default(),
        ns,
    })
}

/// Spans of one tag: those of a lane in a step, or of none.
fn group() -> impl Strategy<Value = Vec<Span>> {
    let tag = (
        any::<bool>(),
        prop::option::of(0..4usize),
        prop::option::of(0..12u64),
    )
        .prop_map(|(armed, lane, step)| SpanTag { armed, lane, step });
    (tag, prop::collection::vec(span(), 1..80)).prop_map(|(tag, mut spans)| {
        spans.iter_mut().for_each(|span| span.tag = tag);
        spans
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_batch_counts_what_its_spans_do_one_by_one(
        passes in prop::collection::vec(prop::collection::vec(group(), 0..6), 1..8),
    ) {
        same(&passes.iter().map(|groups| groups.concat()).collect::<Vec<_>>());
    }
}

#[test]
fn more_kernels_than_rows_and_more_launches_than_a_cell_adds_at_once() {
    let tag = SpanTag {
        armed: true,
        lane: Some(2),
        step: Some(7),
    };
    let launch = |func: u64, ns| Span {
        key: SpanKey::Kernel(func << 8),
        tag,
        ns,
    };
    let many = (1..=KERNEL_TABLE_SLOTS as u64 + 9).map(|func| launch(func, func));
    let often = (0..70_000).map(|nth| launch(3, if nth < 99 { (1 << 36) - 1 } else { 1 }));
    let mut spans: Vec<_> = many.clone().chain(often).chain(many).collect();
    spans.push(launch(0, 5));
    same(&[spans.clone(), spans.clone()]);

    let into = land([spans.as_slice()].into_iter(), |ring, into| {
        ring.harvest(into)
    });
    assert_eq!(into.table_full.get(), 2 * 9 + 1);
    let row = into.kernels().into_iter().find(|row| row.func == 3 << 8);
    let row = row.map(|row| (row.total_ns, row.samples));
    let ns = 2 * 3 + 99 * ((1 << 36) - 1) + 69_901;
    assert_eq!(row, Some((ns, 70_002)));
}

#[test]
fn a_launch_is_counted_before_the_lanes_that_come_after_it() {
    let span = |key, step| Span {
        key,
        tag: SpanTag {
            armed: true,
            lane: Some(LANE_DECODE),
            step: Some(step),
        },
        ns: 5,
    };
    let step = |step| span(SpanKey::Lane(LANE_DECODE), step);
    let launch = |step| span(SpanKey::Kernel(7), step);
    // Lane time is remembered for 256 armed steps.
    let mut spans = vec![launch(0)];
    spans.extend((0..300).map(step));
    spans.extend((300..303).flat_map(|nth| [launch(nth), step(nth)]));
    let into = land([spans.as_slice()].into_iter(), |ring, into| {
        ring.harvest(into)
    });
    assert_eq!(into.estimate_losses(), EstimateLosses::default());
}
