// SPDX-License-Identifier: MIT OR Apache-2.0
//! The look at what a guest does: the log between its entry and its return
//! holds its calls and nobody else's.

use super::{Machine, fail_next};
use crate::follow::OfAnchors;
use crate::guest::{Guest, Ledgers, Stream};
use crate::rules::{Entry, Facts, broken};
use crate::sequence::TROUBLED;
use metrale_gpu_sim::control;

/// What held before a guest was entered.
pub(super) struct Before {
    ledgers: Ledgers,
    /// Of these what is known by then; `stale` counts from the start.
    facts: Facts,
}

impl Machine {
    /// The guest of a place is entered, with a stream or without.
    pub(super) fn open(
        &mut self,
        place: usize,
        ledgers: Ledgers,
        stream: Option<Stream>,
    ) -> Before {
        control::log_clear();
        let troubled = self.trouble.take().map(|trouble| {
            let call = TROUBLED[usize::from(trouble.call) % TROUBLED.len()];
            fail_next(call, trouble.status, u64::from(trouble.skip));
            (call, trouble.status)
        });
        let own = self.installed.get(place).map_or(0, |known| known.context);
        let facts = Facts {
            mode: self.modes[self.thread],
            silent: ledgers.silent,
            troubled,
            stale: control::stale_handle_uses(),
            foreign: stream.is_some_and(|at| at.context != 0 && at.context != own),
            own_default: stream.is_some_and(|at| at.handle <= 2 && at.context == own),
            no_legacy: self.setup.refuse_legacy,
            pairs: usize::from(self.setup.slots),
            ..Facts::default()
        };
        Before { ledgers, facts }
    }

    pub(super) fn shut(&mut self, place: usize, entry: Entry, before: &Before, ledgers: Ledgers) {
        if before.facts.troubled.is_some() {
            control::clear_faults();
        }
        let calls = control::log();
        self.tally.count("entered", format!("{entry:?}"), 1);
        self.tally.count("called by the guest in", format!("{entry:?}"), calls.len() as u64);
        let lanes = ledgers.lanes.landed - before.ledgers.lanes.landed;
        let launches = ledgers.launches.landed - before.ledgers.launches.landed;
        let failed = |ledgers: Ledgers| ledgers.lanes.failed + ledgers.launches.failed;
        let begun = |ledgers: Ledgers| ledgers.lanes.begun + ledgers.launches.begun;
        let begun = (begun(ledgers) - begun(before.ledgers)) as usize;
        let followed = self.installed.get_mut(place);
        let (anchors, mut wrong) = followed
            .map(|installed| installed.events.follow(entry, &calls, begun))
            .unwrap_or_default();
        let ended_on = self.installed.get(place).map(|known| &known.ended_on);
        let OfAnchors { records, queries, reads } = anchors;
        for (name, count) in [("records", records), ("queries", queries), ("reads", reads)] {
            self.tally.count("of anchors", name, count as u64);
        }
        let facts = Facts {
            landed: (lanes + launches) as usize,
            lanes: lanes as usize,
            failed: (failed(ledgers) - failed(before.ledgers)) as usize,
            streams: ended_on.map_or(0, |rings| rings.iter().map(Vec::len).sum()),
            stale: control::stale_handle_uses() - before.facts.stale,
            anchors,
            ..before.facts
        };
        wrong.extend(broken(entry, &calls, &facts));
        for what in wrong {
            self.broke(what);
        }
        for (ring, ledger) in [("lane", ledgers.lanes), ("launch", ledgers.launches)] {
            if !ledger.closes() {
                self.broke(format!("the {ring} ledger does not close: {ledger:?}"));
            }
        }
    }

    /// Lets the guest of a place do something, if there is one, with a stream or without.
    pub(super) fn enter<T>(
        &mut self,
        place: usize,
        entry: Entry,
        stream: Option<Stream>,
        body: impl FnOnce(&mut Guest) -> T,
    ) -> Option<T> {
        let mut guest = self.installed.get_mut(place)?.guest.take()?;
        let before = self.open(place, guest.ledgers(), stream);
        let result = body(&mut guest);
        let ledgers = guest.ledgers();
        self.shut(place, entry, &before, ledgers);
        if let Some(installed) = self.installed.get_mut(place) {
            let rings = [ledgers.lanes, ledgers.launches];
            for (ended_on, ring) in installed.ended_on.iter_mut().zip(rings) {
                if ring.in_flight == 0 {
                    ended_on.clear();
                }
            }
            installed.guest = Some(guest);
        }
        Some(result)
    }
}
