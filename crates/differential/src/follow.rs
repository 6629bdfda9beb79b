// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is followed of a guest's events from entry to entry.
//!
//! 1. An event that can never be read is not polled again until it was recorded
//!    anew.
//! 2. An armed step has one anchor at most, recorded before its first span: in
//!    an entry that begins spans, the first record of those that no span was
//!    begun for.
//! 3. An anchor is asked about once for each ring that is polled, until it is
//!    done; from then on it is only read from.

use crate::rules::{Entry, RINGS, is_final, is_poll, is_query, is_read, is_record};
use metrale_gpu_sim::control::Call;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Events {
    unreadable: Vec<u64>,
    anchors: Vec<Anchor>,
    /// The step that spans begin in has had its first record.
    is_anchored: bool,
}

#[derive(Debug)]
struct Anchor {
    event: u64,
    is_done: bool,
}

/// Calls that are about anchors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfAnchors {
    /// Anchors recorded.
    pub(crate) records: usize,
    /// Questions whether one is done.
    pub(crate) queries: usize,
    /// Places read from one.
    pub(crate) reads: usize,
}

impl Events {
    /// Spans begin in another step from here on, which has had its first record
    /// or not; whether the one before had.
    pub(crate) fn change_step(&mut self, is_anchored: bool) -> bool {
        std::mem::replace(&mut self.is_anchored, is_anchored)
    }

    /// Takes note of an entry's calls, in which `begun` spans were begun; which
    /// of them are about anchors, and what is wrong with them.
    pub(crate) fn follow(
        &mut self,
        entry: Entry,
        calls: &[Call],
        begun: usize,
    ) -> (OfAnchors, Vec<String>) {
        let mut broken = Vec::new();
        let mut found = OfAnchors::default();
        if entry.begins() {
            found.records = self.find_anchor(calls, begun, &mut broken);
        }
        for call in calls {
            if is_record(call) && call.status.is_success() {
                self.unreadable.retain(|event| *event != call.handle);
            } else if is_poll(call) && self.unreadable.contains(&call.handle) {
                broken.push(format!("{} again of an event that failed", call.name));
            } else if is_poll(call) && is_final(call.status) {
                self.unreadable.push(call.handle);
            }
        }
        for anchor in &mut self.anchors {
            let of = calls.iter().filter(|call| call.handle == anchor.event);
            let reads = of.clone().filter(|call| is_read(call)).count();
            let queries: Vec<_> = of.filter(|call| is_query(call)).collect();
            let is_done = queries.iter().position(|call| call.status.is_success());
            let most = match is_done {
                _ if anchor.is_done => 0,
                Some(first) => RINGS.min(first + 1),
                None => RINGS,
            };
            if queries.len() > most {
                broken.push(format!("{} questions for one anchor", queries.len()));
            }
            found.queries += queries.len();
            found.reads += reads;
            anchor.is_done |= is_done.is_some();
        }
        (found, broken)
    }

    /// Notes the anchor that an entry recorded, if it did; how many there are.
    fn find_anchor(&mut self, calls: &[Call], begun: usize, broken: &mut Vec<String>) -> usize {
        let mut records = calls.iter().filter(|call| is_record(call));
        let anchors = records.clone().count().saturating_sub(begun);
        let Some(first) = records.next() else {
            return 0;
        };
        if anchors > usize::from(!self.is_anchored) {
            broken.push(format!("{anchors} anchors, and the step had one"));
        }
        self.is_anchored = true;
        if anchors > 0 {
            self.anchors.retain(|anchor| anchor.event != first.handle);
            if first.status.is_success() {
                self.anchors.push(Anchor { event: first.handle, is_done: false });
            }
        }
        anchors
    }
}

#[cfg(test)]
mod tests {
    use super::{Events, OfAnchors};
    use crate::rules::tests::call;
    use crate::rules::{Entry, QUERY, READS, RECORD};

    #[test]
    fn an_event_that_failed_is_not_polled_until_it_is_recorded_anew() {
        let mut events = Events::default();
        let mut wrong = |calls: &[_]| events.follow(Entry::Harvest, calls, 0).1.len();
        let (failed, asked) = (call(QUERY, 2, 907), call(QUERY, 2, 600));
        assert_eq!(wrong(&[asked, asked, failed]), 0);
        assert_eq!(wrong(&[asked]), 1);
        assert_eq!(wrong(&[call(RECORD, 0, 0), asked]), 0);
    }

    #[test]
    fn a_step_has_one_anchor_and_it_is_asked_until_it_is_done() {
        let mut events = Events::default();
        let of = |handle, call| metrale_gpu_sim::control::Call { handle, ..call };
        let record = |handle| of(handle, call(RECORD, 0, 0));
        let query = |status| of(1, call(QUERY, 2, status));
        let read = of(1, call(READS[0], 2, 0));
        let (found, wrong) = events.follow(Entry::BeginLane, &[record(1), record(2)], 1);
        assert_eq!((found.records, wrong.len()), (1, 0));
        let mut wrong = |entry, calls: &[_], begun| events.follow(entry, calls, begun).1.len();
        assert_eq!(wrong(Entry::BeginLane, &[record(3)], 1), 0);
        assert_eq!(wrong(Entry::BeginLane, &[record(4), record(5)], 1), 1, "a second");
        let twice = [query(600), query(600)];
        assert_eq!(wrong(Entry::Harvest, &twice, 0), 0, "by each ring");
        let thrice = [query(600), query(600), query(600)];
        assert_eq!(wrong(Entry::Harvest, &thrice, 0), 1);
        assert_eq!(wrong(Entry::Harvest, &[query(0), read, query(0)], 0), 1);
        assert_eq!(wrong(Entry::Harvest, &[query(0)], 0), 1, "it was done");
        let (found, wrong) = events.follow(Entry::Harvest, &[read, of(2, read)], 0);
        let OfAnchors { queries, reads, .. } = found;
        assert_eq!((queries, reads, wrong.len()), (0, 1, 0));
        events.change_step(false);
        let (_, wrong) = events.follow(Entry::BeginLane, &[record(1), record(6)], 1);
        assert_eq!(wrong.len(), 0, "another step's");
        let (found, wrong) = events.follow(Entry::Harvest, &[query(600)], 0);
        assert_eq!((found.queries, wrong.len()), (1, 0), "recorded anew");
    }
}
