// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the launches of a pass are counted, and that none are lost.

use super::Landing;
use crate::kernel::span::{Flags, Packed};
use crate::kernel::{Harvested, KernelInstruments, Landed, SpanKey, SpanTag, StepId};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

fn flags(step: u64) -> Flags {
    let tag = SpanTag { lane: Some(1), armed: true, step: StepId::Number(step) };
    Packed::new(SpanKey::Kernel(1), tag).flags
}

fn launch(func: u64, step: u64, ns: u64) -> Harvested {
    Harvested::Landed(Landed {
        key: SpanKey::Kernel(func),
        flags: flags(step),
        stream: 1,
        ns,
        gap_ns: None,
        start_ns: None,
    })
}

/// Flags, how many and how long, of what is counted meanwhile.
fn counted(work: impl FnOnce(&mut Vec<(Flags, u64, u64)>)) -> Vec<(Flags, u64, u64)> {
    let mut counted = Vec::new();
    work(&mut counted);
    counted.sort_unstable_by_key(|(flags, count, ns)| (flags.0, *count, *ns));
    counted
}

fn count(landing: &mut Landing<'_>, span: &Harvested, into: &mut Vec<(Flags, u64, u64)>) {
    landing.count(span, |of| into.push((of.flags, of.count, of.ns)));
}

/// Total and samples of the only kernel.
fn row(into: &KernelInstruments) -> Option<(u64, u64)> {
    let rows = into.kernels();
    assert!(rows.len() <= 1);
    rows.first().map(|row| (row.total_ns, row.samples))
}

#[test]
fn launches_of_a_tag_are_counted_together_before_those_of_another() {
    let into = Box::new(KernelInstruments::new());
    let mut landing = into.landing();
    let told = counted(|told| {
        for ns in [1, 10, 100] {
            count(&mut landing, &launch(7, 3, ns), told);
        }
    });
    assert_eq!((told, row(&into)), (vec![], None));
    let told = counted(|told| count(&mut landing, &launch(7, 4, 5), told));
    assert_eq!(told, [(flags(3), 3, 111)]);
    assert_eq!(row(&into), Some((111, 3)));
    let told = counted(|told| landing.finish(|of| told.push((of.flags, of.count, of.ns))));
    assert_eq!(told, [(flags(4), 1, 5)]);
    assert_eq!(row(&into), Some((116, 4)));
}

#[test]
fn a_long_launch_is_counted_at_once_and_by_itself() {
    let into = Box::new(KernelInstruments::new());
    let mut landing = into.landing();
    let told = counted(|told| {
        count(&mut landing, &launch(7, 3, 1), told);
        count(&mut landing, &launch(7, 3, 1 << 40), told);
    });
    assert_eq!(told, [(flags(3), 1, 1 << 40)]);
    landing.finish(|_| ());
    assert_eq!(row(&into), Some(((1 << 40) + 1, 2)));
}

#[test]
fn what_a_pass_that_panicked_left_is_counted_by_the_next() {
    let into = Box::new(KernelInstruments::new());
    let pass = || {
        let mut landing = into.landing();
        landing.count(&launch(7, 3, 20), |_| ());
        resume_unwind(Box::new("a panic that prints nothing"));
    };
    catch_unwind(AssertUnwindSafe(pass)).unwrap_err();
    assert_eq!(row(&into), None);
    let told = counted(|told| {
        let landing = into.landing();
        landing.finish(|of| told.push((of.flags, of.count, of.ns)));
    });
    assert_eq!(told, [(flags(3), 1, 20)]);
    assert_eq!(row(&into), Some((20, 1)));
}

#[test]
fn where_another_pass_has_the_batch_launches_are_counted_one_by_one() {
    let into = Box::new(KernelInstruments::new());
    let first = into.landing();
    let mut second = into.landing();
    let told = counted(|told| {
        count(&mut second, &launch(7, 3, 1), told);
        count(&mut second, &launch(7, 3, 2), told);
    });
    assert_eq!(told, [(flags(3), 1, 1), (flags(3), 1, 2)]);
    assert_eq!(row(&into), Some((3, 2)));
    first.finish(|_| ());
    second.finish(|_| ());
    assert_eq!(row(&into), Some((3, 2)));
}

#[test]
fn a_failed_span_is_counted_and_one_taken_back_is_not() {
    let into = Box::new(KernelInstruments::new());
    let mut landing = into.landing();
    let lost = Packed::new(SpanKey::Lane(1), SpanTag::default()).lost();
    landing.count(&Harvested::Reclaimed(lost), |_| ());
    assert_eq!(into.span_failures.get(), 0);
    landing.count(&Harvested::Failed(lost), |_| ());
    assert_eq!(into.span_failures.get(), 1);
    assert_eq!(into.lost_of(lost.key), 2, "neither has a time");
}
