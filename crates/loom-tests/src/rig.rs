// SPDX-License-Identifier: MIT OR Apache-2.0
//! A ring over tracked pairs with a tally, as every ring model uses it.

use crate::{Pairs, Tally};
use metrale_telemetry::kernel::{Ledger, SpanKey, SpanRing, SpanRingBuilder, SpanTag, SpanToken};
use std::sync::Arc;

/// The ring under test and what became of its spans; cheap to clone.
#[derive(Clone, Debug)]
pub struct Rig {
    /// The production ring.
    pub ring: Arc<SpanRing<Pairs>>,
    /// What became of its spans.
    pub tally: Arc<Tally>,
}

impl Rig {
    /// A ring of `slots` slots.
    pub fn new(slots: usize) -> Self {
        Self::with(slots, |builder| builder)
    }

    /// A ring with options.
    pub fn with(
        slots: usize,
        options: impl FnOnce(SpanRingBuilder<Pairs>) -> SpanRingBuilder<Pairs>,
    ) -> Self {
        Self {
            ring: Arc::new(options(SpanRing::builder(Pairs::new(slots), slots)).build()),
            tally: Arc::default(),
        }
    }

    /// Begins the span `name`.
    pub fn begin(&self, name: u64, stream: u64) -> Option<SpanToken> {
        let key = SpanKey::Kernel(name);
        let begun = self.ring.begin_tagged(key, Tally::tag(name), stream);
        begun.inspect_err(|why| self.tally.not_begun(*why)).ok()
    }

    /// Ends a span.
    pub fn end(&self, token: SpanToken, stream: u64) {
        if let Err(why) = self.ring.end_span(token, stream) {
            self.tally.not_ended(why);
        }
    }

    /// Cancels a span; its tag, if it was open.
    pub fn cancel(&self, token: SpanToken) -> Option<SpanTag> {
        let cancelled = self.ring.cancel(token);
        cancelled.inspect(|tag| self.tally.cancelled(*tag))
    }

    /// Begins and ends the span `name`; whether it was begun.
    pub fn span(&self, name: u64, stream: u64) -> bool {
        let token = self.begin(name, stream);
        token.map(|token| self.end(token, stream)).is_some()
    }

    /// One harvest pass.
    pub fn harvest(&self) -> usize {
        self.ring.harvest_with(|span| self.tally.take(span))
    }

    /// At rest, that is with every thread joined and every span over: lands
    /// what is left and checks that the ledger closes and agrees with what the
    /// tally was told.
    pub fn finish(&self) -> Ledger {
        self.harvest();
        let ledger = self.ring.ledger();
        assert!(ledger.closes(), "the ledger is open: {ledger:?}");
        assert_eq!(ledger.in_flight, 0, "a span was left behind: {ledger:?}");
        let of = |Ledger { landed, dropped, failed, cancelled, reclaimed, .. }: Ledger| {
            [landed, dropped, failed, cancelled, reclaimed]
        };
        assert_eq!(of(ledger), of(self.tally.counts()));
        ledger
    }
}
