// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a pass adds up is what its spans would have made one by one.

use crate::kernel::{
    Edge, EventOps, KERNEL_TABLE_SLOTS, KernelInstruments, LANES, Place, SpanKey, SpanPoll,
    SpanRing, SpanTag, StepId,
};
use crate::runtime::{Fold, StepTable};
use crate::sampling::Sampling;
use proptest::prelude::*;

/// Every pair is done, and reads what it was told to.
struct Told(Vec<u64>);

impl EventOps for Told {
    fn record(&self, _: usize, _: Edge, _: u64) -> bool {
        true
    }
    fn poll(&self, slot: usize) -> SpanPoll {
        SpanPoll::Ready(self.0[slot])
    }
    fn gap(&self, prev: usize, slot: usize) -> Option<i64> {
        (!(prev + slot).is_multiple_of(5)).then_some(100 * slot as i64)
    }
    fn place(&self, _: u32, slot: usize) -> Place {
        Place::At(50 * slot as i64)
    }
}

/// A span to be landed.
#[derive(Clone, Debug)]
struct Span {
    key: SpanKey,
    tag: SpanTag,
    ns: u64,
}

/// How a pass counts its launches.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Batch,
    /// Somebody else has the batch.
    One,
}

/// Passes over these spans, each pass a slice; steps are put together where
/// their spans name a track.
fn land<'a>(passes: impl Iterator<Item = &'a [Span]>, by: By) -> Box<KernelInstruments> {
    let into = Box::new(KernelInstruments::new());
    let (table, mut fold) = (StepTable::new(), Fold::default());
    for spans in passes {
        let told = Told(spans.iter().map(|span| span.ns).collect());
        let ring = SpanRing::builder(told, spans.len().max(1)).gaps().build();
        for span in spans {
            if let StepId::Track(track) = span.tag.step {
                let number = 100 + u64::from(track);
                drop(table.enter(track, number, span.tag.armed));
            }
            let token = ring.begin_tagged(span.key, span.tag, 1).unwrap();
            ring.end_span(token, 1).unwrap();
        }
        let other = (by == By::One).then(|| into.landing());
        let mut folding = fold.harvest(&table, &into);
        assert_eq!(ring.harvest_with(|span| folding.take(span)), spans.len());
        folding.finish(0, None);
        drop(other);
    }
    fold.harvest(&table, &into).give_up();
    into
}

/// All that the instruments hold.
fn contents(of: &KernelInstruments) -> impl PartialEq + std::fmt::Debug + use<> {
    let mut kernels: Vec<_> = of.kernels();
    kernels.sort_unstable_by_key(|row| row.func);
    let lanes = (0..LANES.len()).map(|lane| {
        let of = [&of.lane[lane], &of.lane_gap[lane]];
        of.map(|histogram| (histogram.snapshot().count(), histogram.snapshot().sum_ns()))
    });
    let folded = of.copy_folded();
    let steps = (0..LANES.len()).map(|lane| {
        let estimate = folded.lane_estimate(lane);
        (folded.lane(lane), folded.incomplete(lane), estimate)
    });
    let steps: Vec<_> = steps.collect();
    let mut estimates = folded.kernel_estimates(Sampling::Hashed, 64);
    estimates.sort_unstable_by_key(|row| (row.lane, row.func));
    (kernels, lanes.collect::<Vec<_>>(), of.table_full.get(), steps, estimates, folded.losses())
}

fn same(passes: &[Vec<Span>]) {
    let passes = || passes.iter().map(Vec::as_slice);
    assert_eq!(contents(&land(passes(), By::Batch)), contents(&land(passes(), By::One)));
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
    (key, ns).prop_map(|(key, ns)| Span { key, tag: SpanTag::default(), ns })
}

/// Spans of one tag: those of a lane in a step, or of none.
fn group() -> impl Strategy<Value = Vec<Span>> {
    let step = prop_oneof![
        Just(StepId::Unknown),
        (0..12u64).prop_map(StepId::Number),
        (0..12u32).prop_map(StepId::Track),
    ];
    let tag = (any::<bool>(), prop::option::of(0..4usize), step)
        .prop_map(|(armed, lane, step)| SpanTag { lane, armed, step });
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
    let tag = SpanTag { lane: Some(2), armed: true, step: StepId::Track(7) };
    let launch = |func: u64, ns| Span { key: SpanKey::Kernel(func << 8), tag, ns };
    let many = (1..=KERNEL_TABLE_SLOTS as u64 + 9).map(|func| launch(func, func));
    let often = (0..70_000).map(|nth| launch(3, if nth < 99 { (1 << 36) - 1 } else { 1 }));
    let mut spans: Vec<_> = many.clone().chain(often).chain(many).collect();
    spans.push(launch(0, 5));
    same(&[spans.clone(), spans.clone()]);

    let into = land([spans.as_slice()].into_iter(), By::Batch);
    assert_eq!(into.table_full.get(), 2 * 9 + 1);
    let row = into.kernels().into_iter().find(|row| row.func == 3 << 8);
    let row = row.map(|row| (row.total_ns, row.samples));
    let ns = 2 * 3 + 99 * ((1 << 36) - 1) + 69_901;
    assert_eq!(row, Some((ns, 70_002)));
}
