// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guests that make one mistake each, to show that mistakes are found. Without
//! its mistake such a guest is a plain recorder that nobody notices.

use crate::cuda::CUDA;
use crate::guest::{Guest, Ledgers, Stream, What};
use crate::sequence::Setup;
use metrale_gpu_sys::cuda::Status;
use metrale_telemetry::kernel::Ledger;

/// What a guest does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Nothing.
    None,
    /// It polls in the mode that the thread is in.
    PollsUnguarded,
    /// It polls in the thread-local mode.
    PollsThreadLocal,
    /// It records without asking whether the stream captures.
    RecordsUnasked,
    /// It leaves the thread in the relaxed mode.
    KeepsMode,
    /// It leaves its context current.
    KeepsContext,
    /// It stays in the context that it entered for a default stream.
    StaysEntered,
    /// It waits for the GPU.
    Waits,
    /// It makes its events as it needs them.
    CreatesEvents,
    /// It polls every open pair, each time.
    PollsAll,
    /// It ends spans on the stream that it was given at their begin.
    KeepsStreams,
}

/// Pairs of events, given out once each.
const PAIRS: usize = 256;

struct Span {
    pair: (u64, u64),
    began_on: u64,
    ended_on: Option<u64>,
}

/// A guest with a mistake.
pub(crate) struct Naive {
    mistake: Mistake,
    refuse_legacy: bool,
    context: u64,
    pairs: Vec<(u64, u64)>,
    spans: Vec<Option<Span>>,
    ledger: Ledger,
}

impl Naive {
    /// `None` where the context is none.
    pub(crate) fn make(mistake: Mistake, setup: &Setup, context: u64) -> Option<Box<dyn Guest>> {
        if !(CUDA.ctx_push.call)(context).is_success() {
            return None;
        }
        let count = if mistake == Mistake::CreatesEvents { 0 } else { PAIRS };
        let pairs = (0..count).map_while(|_| pair()).collect();
        if mistake != Mistake::KeepsContext {
            pop();
        }
        Some(Box::new(Self {
            mistake,
            refuse_legacy: setup.refuse_legacy,
            context,
            pairs,
            spans: Vec::new(),
            ledger: Ledger::default(),
        }))
    }

    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == mistake
    }

    fn is_foreign(&self, stream: Stream) -> bool {
        stream.context != 0 && stream.context != self.context
    }

    fn record(&self, event: u64, stream: u64) -> bool {
        if self.refuse_legacy && stream <= 1 {
            return false;
        }
        if stream <= 2 {
            let mut current = 0;
            let asked = (CUDA.ctx_current.call)(&mut current);
            if !asked.is_success() || current != self.context {
                return false;
            }
        }
        if !self.has(Mistake::RecordsUnasked) {
            let mut capturing = 0;
            let asked = (CUDA.is_capturing.call)(stream, &mut capturing);
            if !asked.is_success() || capturing != 0 {
                return false;
            }
        }
        (CUDA.event_record.call)(event, stream).is_success()
    }

    fn poll(&self, pair: (u64, u64), first: bool) -> Status {
        if self.has(Mistake::Waits) {
            let _ = (CUDA.event_synchronize.call)(pair.1);
        }
        if first || self.has(Mistake::PollsAll) {
            let asked = (CUDA.event_query.call)(pair.1);
            if !asked.is_success() {
                return asked;
            }
        }
        let mut milliseconds = 0.0;
        (CUDA.elapsed.call)(&mut milliseconds, pair.0, pair.1)
    }

    /// Frees a span; whether there was one.
    fn free(&mut self, place: usize) -> bool {
        let freed = self.spans[place].take().is_some();
        self.ledger.in_flight -= u64::from(freed);
        freed
    }
}

fn pair() -> Option<(u64, u64)> {
    let event = || {
        let mut event = 0;
        let made = (CUDA.event_create.call)(&mut event, 0);
        made.is_success().then_some(event)
    };
    Some((event()?, event()?))
}

/// Tried again where a call that failed popped nothing.
fn pop() {
    for _ in 0..2 {
        let mut context = 0;
        let _ = (CUDA.ctx_pop.call)(&mut context);
        if context != 0 {
            return;
        }
    }
}

fn exchange(mode: u32) -> Option<u32> {
    let mut mode = mode;
    let status = (CUDA.mode.call)(&mut mode);
    status.is_success().then_some(mode)
}

impl Guest for Naive {
    fn begin(&mut self, _: What, _: bool, stream: Stream) -> Option<u64> {
        let pair = if self.has(Mistake::CreatesEvents) { pair()? } else { self.pairs.pop()? };
        let began_on = stream.handle;
        let is_own_default = began_on <= 2 && stream.context == self.context;
        if self.has(Mistake::StaysEntered) && is_own_default {
            let _ = (CUDA.ctx_push.call)(self.context);
        }
        self.ledger.attempts += 1;
        self.ledger.begun += 1;
        if self.is_foreign(stream) || !self.record(pair.0, began_on) {
            self.ledger.failed += 1;
            return None;
        }
        self.ledger.in_flight += 1;
        self.spans.push(Some(Span { pair, began_on, ended_on: None }));
        Some(self.spans.len() as u64 - 1)
    }

    fn end(&mut self, _: What, span: u64, stream: Stream) {
        let place = span as usize;
        let open = |span: &Span| span.ended_on.is_none().then_some((span.pair, span.began_on));
        let Some((pair, began_on)) = self.spans[place].as_ref().and_then(open) else {
            return;
        };
        let foreign = self.is_foreign(stream);
        let stream = if self.has(Mistake::KeepsStreams) { began_on } else { stream.handle };
        if !foreign && self.record(pair.1, stream) {
            if let Some(span) = &mut self.spans[place] {
                span.ended_on = Some(stream);
            }
        } else if self.free(place) {
            self.ledger.failed += 1;
        }
    }

    fn cancel(&mut self, _: What, span: u64) {
        if self.free(span as usize) {
            self.ledger.cancelled += 1;
        }
    }

    fn step(&mut self, _: bool) {}

    fn serve(
        &mut self,
        lane: usize,
        function: u64,
        stream: Stream,
        launches: &mut dyn FnMut(Ledgers),
    ) {
        let outer = self.begin(What::Lane(lane), true, stream);
        let inner = self.begin(What::Kernel(function), true, stream);
        launches(self.ledgers());
        for span in [inner, outer].into_iter().flatten() {
            self.end(What::Lane(lane), span, stream);
        }
    }

    fn harvest(&mut self) -> usize {
        let wanted = match self.mistake {
            Mistake::PollsUnguarded => None,
            Mistake::PollsThreadLocal => Some(1),
            _ => Some(2),
        };
        let mode = wanted.and_then(exchange);
        if wanted.is_some() && mode.is_none() {
            return 0;
        }
        let (mut asked, mut waiting) = (Vec::new(), Vec::new());
        let mut landed = 0;
        for place in 0..self.spans.len() {
            let Some(Span { pair, ended_on: Some(stream), .. }) = self.spans[place] else {
                continue;
            };
            if waiting.contains(&stream) && !self.has(Mistake::PollsAll) {
                continue;
            }
            let first = !asked.contains(&stream);
            asked.push(stream);
            match self.poll(pair, first) {
                Status::ERROR_NOT_READY => waiting.push(stream),
                // The driver says: not now.
                Status(2 | 201 | 800 | 900..=906 | 908) => break,
                Status::SUCCESS => {
                    self.free(place);
                    self.ledger.landed += 1;
                    landed += 1;
                }
                _ => {
                    self.free(place);
                    self.ledger.failed += 1;
                }
            }
        }
        if let Some(mode) = mode
            && !self.has(Mistake::KeepsMode)
        {
            let _ = exchange(mode).or_else(|| exchange(mode));
        }
        landed
    }

    fn forget(&mut self, _: u64) {}

    fn ledgers(&self) -> Ledgers {
        // One ring for both kinds.
        Ledgers { lanes: self.ledger, launches: self.ledger, silent: false }
    }

    fn read(&self) {}

    fn leave(self: Box<Self>, _: bool) {}
}
