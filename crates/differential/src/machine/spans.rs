// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the application tells its guest.

use super::modules::PER_THREAD;
use super::{Context, Installed, MAX_OBJECTS, Machine, Owned, pick};
use crate::follow::Events;
use crate::guest::{Guest, Ledgers, Stream, What};
use crate::rules::Entry;
use crate::sequence::Timing;

/// Spans that are open at once.
const MAX_SPANS: usize = 16;

/// A span of the application's, begun or not.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Of the guest's place.
    installed: u64,
    what: What,
    stream: Owned,
    /// The guest's number for it; there is none in the run without.
    begun: Option<u64>,
    /// The guest was told that it is over.
    is_over: bool,
}

impl Machine {
    /// Whether spans may be on this stream: see [`Timing`].
    pub(super) fn may_span(&self, stream: Owned) -> bool {
        self.setup.timing != Timing::SpansApart || !stream.is_blocking
    }

    /// The place of the guest that this stream's work is for.
    pub(super) fn home(&self, stream: Owned) -> Option<usize> {
        let own = |known: &Installed| known.context == stream.context;
        let first = (!self.installed.is_empty()).then_some(0);
        self.installed.iter().position(own).or(first)
    }

    pub(super) fn begin(
        &mut self,
        place: usize,
        what: What,
        armed: bool,
        at: Stream,
    ) -> Option<u64> {
        let entry = if what.is_lane() { Entry::BeginLane } else { Entry::BeginLaunch };
        self.enter(place, entry, Some(at), |guest| guest.begin(what, armed, at))?
    }

    pub(super) fn end(&mut self, place: usize, what: What, span: u64, stream: Owned) {
        let at = stream.at();
        self.enter(place, Entry::End, Some(at), |guest| guest.end(what, span, at));
        self.ended(place, &[usize::from(!what.is_lane())], stream.handle);
    }

    /// Notes that spans of these rings have ended on the stream, as a guest tells it from
    /// others: each thread has a per-thread one.
    fn ended(&mut self, place: usize, rings: &[usize], handle: u64) {
        let stream = (handle, if handle == PER_THREAD { self.thread } else { 0 });
        for ring in rings {
            let ended_on = &mut self.installed[place].ended_on[*ring];
            if !ended_on.contains(&stream) {
                ended_on.push(stream);
            }
        }
    }

    pub(super) fn install(&mut self, c: u8) {
        let is_free =
            |context: &&Context| self.installed.iter().all(|known| known.context != context.handle);
        let without: Vec<Context> = self.contexts.iter().filter(is_free).copied().collect();
        let Some(&Context { handle: context, device, .. }) = pick(&without, c) else {
            return;
        };
        if self.installed.len() >= MAX_OBJECTS {
            return;
        }
        let id = self.next_serial();
        let place = self.installed.len();
        self.installed.push(Installed {
            id,
            context,
            guest: None,
            ended_on: [const { Vec::new() }; 2],
            events: Events::default(),
        });
        if let Some(mistake) = self.guests {
            let setup = self.setup;
            let before = self.open(place, Ledgers::default(), None);
            let made = Guest::make(mistake, &setup, context, device);
            self.shut(place, Entry::Install, &before, Ledgers::default());
            self.installed[place].guest = made;
        }
    }

    pub(super) fn uninstall(&mut self, r: u8, close: bool) {
        if let Some(place) = usize::from(r).checked_rem(self.installed.len()) {
            self.remove(place, close);
        }
    }

    fn remove(&mut self, place: usize, close: bool) {
        let installed = self.installed.remove(place);
        let Some(guest) = installed.guest else {
            return;
        };
        let ledgers = guest.ledgers();
        self.tally.count("guests", if ledgers.silent { "quarantined" } else { "sound" }, 1);
        self.tally.ledger = self.tally.ledger.plus(ledgers.lanes).plus(ledgers.launches);
        let before = self.open(place, ledgers, None);
        guest.leave(close);
        self.shut(usize::MAX, Entry::Leave, &before, ledgers);
    }

    /// The context goes: its guests are closed first.
    pub(super) fn evict(&mut self, context: u64) {
        while let Some(place) = self.installed.iter().position(|known| known.context == context) {
            self.remove(place, true);
        }
    }

    /// All guests harvest once more, then leave.
    pub(super) fn evict_all(&mut self) {
        for place in 0..self.installed.len() {
            self.enter(place, Entry::Harvest, None, |guest| guest.harvest());
        }
        while !self.installed.is_empty() {
            let close = self.installed.len() % 2 == 1;
            self.remove(0, close);
        }
    }

    fn place(&self, r: u8) -> Option<usize> {
        usize::from(r).checked_rem(self.installed.len())
    }

    fn place_of(&self, span: &Span) -> Option<usize> {
        self.installed.iter().position(|known| known.id == span.installed)
    }

    pub(super) fn begin_lane(&mut self, r: u8, lane: u8, s: u8, known: bool) {
        let mut stream = self.stream(s);
        if known && stream.context == 0 {
            // Any that lives, current or not.
            stream.context = self.context(lane / 4);
        }
        let context = if known { stream.context } else { 0 };
        // One lane more than there are.
        let what = What::Lane(usize::from(lane % 4));
        self.begin_span(r, what, true, stream, Stream { context, ..stream.at() });
    }

    pub(super) fn begin_launch(&mut self, r: u8, what: u8, s: u8, (armed, known): (bool, bool)) {
        let mut stream = self.stream(s);
        if known && stream.context == 0 {
            stream.context = self.context(what / 4);
        }
        let what = match (what % 4, self.function(what / 4)) {
            (0 | 1, Some(function)) => What::Kernel(function),
            (2, Some(function)) => What::Function(function),
            _ => What::Graph(what / 4),
        };
        self.begin_span(r, what, armed, stream, stream.at());
    }

    fn begin_span(&mut self, r: u8, what: What, armed: bool, stream: Owned, at: Stream) {
        let Some(place) = self.place(r) else {
            return;
        };
        if !self.may_span(stream) || self.spans.len() >= MAX_SPANS {
            return;
        }
        let begun = self.begin(place, what, armed, at);
        let installed = self.installed[place].id;
        self.spans.push(Span { installed, what, stream, begun, is_over: false });
    }

    /// Takes an open span out, by choice.
    fn take_span(&mut self, choice: u8) -> Option<Span> {
        let place = usize::from(choice).checked_rem(self.spans.len())?;
        Some(self.spans.remove(place))
    }

    /// Keeps a span for an end that comes again.
    fn keep_span(&mut self, span: Span) {
        if self.over.len() < MAX_SPANS {
            self.over.push(span);
        }
    }

    pub(super) fn end_span(&mut self, span: u8, other: Option<u8>) {
        let Some(mut span) = self.take_span(span) else {
            return;
        };
        let serial = span.stream.serial;
        let lives = serial == 0 || self.streams.iter().any(|owned| owned.serial == serial);
        let stream = match other {
            Some(other) => self.stream(other),
            None if lives => span.stream,
            None => self.stream(0),
        };
        if self.may_span(stream) {
            span.is_over = true;
            if let (Some(place), Some(begun)) = (self.place_of(&span), span.begun) {
                self.end(place, span.what, begun, stream);
            }
        }
        self.keep_span(span);
    }

    pub(super) fn cancel_span(&mut self, span: u8) {
        let Some(mut span) = self.take_span(span) else {
            return;
        };
        span.is_over = true;
        if let (Some(place), Some(begun)) = (self.place_of(&span), span.begun) {
            self.enter(place, Entry::Quiet, None, |guest| guest.cancel(span.what, begun));
        }
        self.keep_span(span);
    }

    /// Of a span that is over no driver call is made.
    pub(super) fn end_again(&mut self, choice: u8, cancel: bool) {
        let (Some(&span), stream) = (pick(&self.over, choice), self.stream(0)) else {
            return;
        };
        let (Some(place), Some(begun)) = (self.place_of(&span), span.begun) else {
            return;
        };
        let at = Stream { handle: stream.handle, context: 0 };
        if cancel {
            self.enter(place, Entry::Quiet, None, |guest| guest.cancel(span.what, begun));
        } else if span.is_over {
            self.enter(place, Entry::Quiet, None, |guest| guest.end(span.what, begun, at));
        }
    }

    /// Spans are of another step from here on; the one before is ended, or left
    /// to be closed by those that come after it.
    pub(super) fn step(&mut self, r: u8, ends: bool) {
        if let Some(place) = self.place(r) {
            self.enter(place, Entry::Quiet, None, |guest| guest.step(ends));
            self.installed[place].events.change_step(false);
        }
    }

    /// Lets a guest by choice do something.
    pub(super) fn guest(&mut self, r: u8, entry: Entry, body: fn(&mut Guest)) {
        if let Some(place) = self.place(r) {
            self.enter(place, entry, None, body);
        }
    }

    pub(super) fn serve(&mut self, lane: u8, f: u8, s: u8, work: (u32, u8)) {
        let (stream, Some(function)) = (self.stream(s), self.function(f)) else {
            return;
        };
        let (ns, count, known) = (self.duration(work.0), work.1 % 4, work.1 % 8 > 3);
        let home = self.home(stream).filter(|_| self.may_span(stream));
        let guest = home.and_then(|place| self.installed[place].guest.take());
        let (Some(place), Some(mut guest)) = (home, guest) else {
            for _ in 0..count {
                self.launch(function, stream.handle, ns);
            }
            return;
        };
        let context = match stream.context {
            0 if known => self.installed[place].context,
            context => context,
        };
        let at = Stream { handle: stream.handle, context };
        let mut before = self.open(place, guest.ledgers(), Some(at));
        let outer = self.installed[place].events.change_step(false);
        let mut within = |ledgers| {
            self.shut(place, Entry::Open, &before, ledgers);
            for _ in 0..count {
                self.launch(function, stream.handle, ns);
            }
            before = self.open(place, ledgers, Some(at));
        };
        let lane = usize::from(lane % 4);
        guest.serve(lane, function, at, &mut within);
        self.shut(place, Entry::Close, &before, guest.ledgers());
        self.ended(place, &[0, 1], stream.handle);
        let installed = &mut self.installed[place];
        installed.events.change_step(outer);
        installed.guest = Some(guest);
    }
}
