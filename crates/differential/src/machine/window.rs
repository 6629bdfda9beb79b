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
    stale: u64,
    troubled: Option<(&'static str, u32)>,
    about: About,
}

/// What is known of the stream that a guest is told of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct About {
    /// It is another context's.
    foreign: bool,
    /// It is a default stream of the guest's context.
    own_default: bool,
}

impl Machine {
    /// What the application says of the stream to the guest of a place.
    pub(super) fn about(&self, place: usize, stream: Option<Stream>) -> About {
        let (Some(stream), Some(installed)) = (stream, self.installed.get(place)) else {
            return About::default();
        };
        let own = installed.context;
        About {
            foreign: stream.context != 0 && stream.context != own,
            own_default: stream.handle <= 2 && stream.context == own,
        }
    }

    pub(super) fn open(&mut self, ledgers: Ledgers, about: About) -> Before {
        control::log_clear();
        let troubled = self.trouble.take().map(|trouble| {
            let call = TROUBLED[usize::from(trouble.call) % TROUBLED.len()];
            fail_next(call, trouble.status, u64::from(trouble.skip));
            (call, trouble.status)
        });
        Before { ledgers, stale: control::stale_handle_uses(), troubled, about }
    }

    pub(super) fn shut(&mut self, place: usize, entry: Entry, before: &Before, ledgers: Ledgers) {
        if before.troubled.is_some() {
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
            mode: self.modes[self.thread],
            silent: before.ledgers.silent,
            troubled: before.troubled,
            landed: (lanes + launches) as usize,
            lanes: lanes as usize,
            failed: (failed(ledgers) - failed(before.ledgers)) as usize,
            streams: ended_on.map_or(0, |rings| rings.iter().map(Vec::len).sum()),
            stale: control::stale_handle_uses() - before.stale,
            foreign: before.about.foreign,
            own_default: before.about.own_default,
            no_legacy: self.setup.refuse_legacy,
            pairs: usize::from(self.setup.slots),
            anchors,
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
        let about = self.about(place, stream);
        let mut guest = self.installed.get_mut(place)?.guest.take()?;
        let before = self.open(guest.ledgers(), about);
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
