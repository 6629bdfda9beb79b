// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each rule on a few calls.

use super::{
    ASK, CONTEXT_ID, CURRENT, Entry, Facts, MAKE, MODE, NAME, OfAnchors, POP, PUSH, QUERY, RECORD,
    UNMAKE, broken,
};
use metrale_gpu_sim::control::Call;
use metrale_gpu_sys::cuda::Status;

pub(crate) fn call(name: &'static str, mode: u32, status: u32) -> Call {
    Call {
        sequence: 0,
        thread: 1,
        name,
        handle: 0,
        stream: 7,
        status: Status(status),
        mode,
        time_ns: 0,
    }
}

fn count(entry: Entry, calls: &[Call], facts: Facts) -> usize {
    broken(entry, calls, &facts).len()
}

#[test]
fn each_rule_fires_on_its_own_mistake_and_on_nothing_else() {
    let none = Facts::default();
    let (ask, record) = (call(ASK, 0, 0), call(RECORD, 0, 0));
    assert_eq!(count(Entry::BeginLane, &[ask, record], none), 0);
    assert_eq!(count(Entry::BeginLane, &[record], none), 1, "not asked");
    let elsewhere = Call { stream: 8, ..ask };
    let elsewhere_anchor = Call { stream: 8, ..record };
    assert_eq!(count(Entry::BeginLane, &[elsewhere, record], none), 1);
    let refused = Call { status: Status(906), ..ask };
    assert_eq!(count(Entry::BeginLane, &[refused, record], none), 1);
    let twice = [ask, record, ask, record];
    assert_eq!(count(Entry::BeginLane, &twice, none), 2, "beyond the budget");
    assert_eq!(count(Entry::Close, &twice, none), 0);
    let anchored = Facts { anchors: OfAnchors { records: 1, ..OfAnchors::default() }, ..none };
    let both = [ask, record, record];
    assert_eq!(count(Entry::BeginLane, &both, anchored), 0);
    assert_eq!(count(Entry::BeginLane, &both, none), 2, "no anchor");
    let elsewhere_too = [elsewhere, elsewhere_anchor, record];
    assert_eq!(count(Entry::BeginLane, &elsewhere_too, anchored), 1);

    let poll = |mode, status| [call(MODE, 2, 0), call(QUERY, mode, status), call(MODE, 0, 0)];
    let one = Facts { streams: 1, ..none };
    assert_eq!(count(Entry::Harvest, &poll(2, 600), one), 0);
    assert_eq!(count(Entry::Harvest, &poll(1, 600), one), 1, "not relaxed");
    assert_eq!(count(Entry::Harvest, &poll(2, 907), one), 1, "captured");
    assert_eq!(count(Entry::Harvest, &poll(2, 600), none), 1, "no stream");
    let placed =
        |reads| Facts { anchors: OfAnchors { queries: 1, reads, ..OfAnchors::default() }, ..none };
    assert_eq!(count(Entry::Harvest, &poll(2, 600), placed(0)), 0);
    assert_eq!(count(Entry::Harvest, &poll(2, 600), placed(1)), 1, "a place");
    let injected = Facts { troubled: Some((QUERY, 907)), ..one };
    assert_eq!(count(Entry::Harvest, &poll(2, 907), injected), 0);
    let kept = [call(MODE, 2, 0)];
    assert_eq!(count(Entry::Harvest, &kept, one), 1, "mode not restored");

    for name in
        ["cuEventSynchronize", "cuEventCreate", "cuInit", "cuCtxCreate_v2", "cuStreamSynchronize"]
    {
        assert_eq!(count(Entry::Harvest, &[call(name, 0, 0)], none), 1, "{name}");
        assert_eq!(count(Entry::Quiet, &[call(name, 0, 0)], none), 1, "{name}");
    }
    let silent = Facts { silent: true, ..none };
    assert_eq!(count(Entry::BeginLane, &[ask], silent), 1);
    let foreign = Facts { foreign: true, ..none };
    assert_eq!(count(Entry::BeginLane, &[ask], foreign), 1);
    let name = |mode| [call(MODE, 2, 0), call(NAME, mode, 0), call(MODE, 0, 0)];
    assert_eq!(count(Entry::BeginLaunch, &name(2), none), 0);
    assert_eq!(count(Entry::BeginLaunch, &name(0), none), 1);
    let no_legacy = Facts { no_legacy: true, ..none };
    let on = |stream, status| {
        let stream = |call| Call { stream, ..call };
        let record = Call { status: Status(status), ..record };
        [stream(ask), stream(record)]
    };
    assert_eq!(count(Entry::BeginLane, &on(1, 0), no_legacy), 1);
    assert_eq!(count(Entry::BeginLane, &on(2, 0), no_legacy), 0);
    assert_eq!(count(Entry::BeginLane, &on(2, 400), none), 1);
    assert_eq!(count(Entry::BeginLane, &on(7, 400), none), 0);
    let two = Facts { streams: 2, troubled: Some((QUERY, 900)), ..none };
    let again = [call(MODE, 2, 0), call(QUERY, 2, 900), call(QUERY, 2, 0)];
    let again = [again.as_slice(), &[call(MODE, 0, 0)]].concat();
    assert_eq!(count(Entry::Harvest, &again, two), 1, "hammers");
    let (make, unmake) = (call(MAKE, 2, 0), call(UNMAKE, 0, 0));
    assert_eq!(count(Entry::Install, &[make, unmake], none), 0);
    assert_eq!(count(Entry::Install, &[call(MAKE, 0, 0)], none), 1);
    assert_eq!(count(Entry::Install, &[ask, record], none), 2);
    let pairs = Facts { pairs: 1, ..none };
    assert_eq!(count(Entry::Install, &twice, pairs), 0);
    let (current, push, pop) = (call(CURRENT, 0, 0), call(PUSH, 0, 0), call(POP, 0, 0));
    let own = Facts { own_default: true, ..none };
    let entered = [current, push, ask, record, pop];
    assert_eq!(count(Entry::BeginLane, &entered, own), 0);
    assert_eq!(count(Entry::BeginLane, &entered, none), 2, "of a raw handle");
    assert_eq!(count(Entry::BeginLane, &entered[..4], own), 1, "not popped");
    let unasked = [ask, push, ask, record, pop];
    assert_eq!(count(Entry::BeginLane, &unasked[1..], own), 0, "first of all");
    assert_eq!(count(Entry::Open, &unasked, own), 1, "not asked for");
    let (id, unknown) = (call(CONTEXT_ID, 0, 0), call(RECORD, 0, 400));
    assert_eq!(count(Entry::BeginLane, &[ask, unknown, id], none), 0);
    assert_eq!(count(Entry::BeginLane, &[ask, record, id], none), 1);
    let stale = Facts { stale: 2, ..none };
    assert_eq!(count(Entry::BeginLane, &[], stale), 1);
}
