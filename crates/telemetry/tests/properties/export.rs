// SPDX-License-Identifier: MIT OR Apache-2.0
//! No counter on a page falls and none goes, whatever is recorded in between.

use crate::served::Served;
use metrale_telemetry::export::{MetraleCollector, text};
use metrale_telemetry::instrument::Counter;
use metrale_telemetry::kernel::{SpanKey, SpanPoll};
use metrale_telemetry::runtime::{KernelName, RecorderSource};
use metrale_telemetry::snapshot::RecorderSnapshot;
use metrale_telemetry::{Level, Sampling, Telemetry, TelemetryConfig};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// A time that is far too long now and then.
fn ns() -> impl Strategy<Value = u64> {
    prop_oneof![0..1_000_000u64, 1 << 36..1u64 << 38, any::<u64>(), Just(u64::MAX),]
}

/// A span of a step: its row or lane, its stream and begin, and what its poll says.
type Span = (SpanKey, u64, i64, SpanPoll);

fn span() -> impl Strategy<Value = Span> {
    let key = prop_oneof![
        (0..4usize).prop_map(SpanKey::Lane),
        (0..40u64).prop_map(|func| SpanKey::Kernel(func << 8)),
    ];
    let poll = prop_oneof![
        9 => ns().prop_map(SpanPoll::Ready),
        1 => Just(SpanPoll::Failed),
    ];
    (key, 1..4u64, prop_oneof![0..100_000i64, any::<i64>()], poll)
}

#[derive(Clone, Debug)]
enum Act {
    /// Straight into the instruments, as often as said.
    Record(SpanKey, u64, u16),
    /// A step with these spans, which is closed or not.
    Step(Vec<Span>, bool),
    Host(usize, u64),
    Harvest,
    Promote,
    Configure(u64, Sampling),
    Level(bool),
    /// Another recorder with these counts.
    Attach(u64),
    /// The recorder before the last is closed.
    Close,
}

fn sampling() -> impl Strategy<Value = Sampling> {
    prop::sample::select(vec![Sampling::Hashed, Sampling::EveryNth, Sampling::Spread])
}

fn act() -> impl Strategy<Value = Act> {
    let record = (span(), 1..100u16).prop_map(|((key, .., poll), times)| match poll {
        SpanPoll::Ready(ns) => Act::Record(key, ns, times),
        _ => Act::Record(key, u64::MAX, times),
    });
    let step = (prop::collection::vec(span(), 0..12), any::<bool>());
    prop_oneof![
        4 => record,
        6 => step.prop_map(|(spans, closes)| Act::Step(spans, closes)),
        2 => (0..4usize, ns()).prop_map(|(lane, ns)| Act::Host(lane, ns)),
        4 => Just(Act::Harvest),
        3 => Just(Act::Promote),
        1 => (1..4u64, sampling()).prop_map(|(every, sampling)| Act::Configure(every, sampling)),
        1 => any::<bool>().prop_map(Act::Level),
        1 => ns().prop_map(Act::Attach),
        1 => Just(Act::Close),
    ]
}

struct Recorder(u64);

impl RecorderSource for Recorder {
    fn recorder(&self) -> RecorderSnapshot {
        let mut recorder = RecorderSnapshot::default();
        recorder.gpu = "GPU-1".to_owned();
        recorder.lane_ledger.landed = self.0;
        recorder.kernel_ledger.attempts = self.0;
        recorder.health.slow_polls = self.0;
        recorder.health.invalid_times = self.0;
        recorder
    }

    fn name(&self, _: u64) -> Option<KernelName> {
        None
    }
}

/// A second later at each look, so that every promotion is due.
fn clock() -> u64 {
    static LOOKS: Counter = Counter::new();
    LOOKS.add(1);
    LOOKS.get() * 1_000_000_000
}

struct Rig {
    served: Served,
    recorders: Vec<Arc<dyn RecorderSource>>,
}

impl Rig {
    fn new() -> Self {
        let mut rig = Self { served: Served::new(), recorders: Vec::new() };
        rig.served.telemetry = Box::new(Telemetry::with_clock(clock));
        rig.served.telemetry.expose_kernels(6);
        rig.act(Act::Configure(1, Sampling::Hashed));
        rig.act(Act::Attach(0));
        rig
    }

    fn act(&mut self, act: Act) {
        let telemetry = &self.served.telemetry;
        match act {
            Act::Record(key, ns, times) => {
                for _ in 0..times {
                    telemetry.instruments().record(key, ns);
                }
            }
            Act::Step(spans, closes) => {
                let step = telemetry.step_begin();
                for (key, stream, start_ns, poll) in spans {
                    self.served.span(step, (key, 1, stream), start_ns, poll);
                }
                if closes {
                    self.served.close(step);
                }
            }
            Act::Host(lane, ns) => {
                telemetry.host().lane_took(lane, ns);
                telemetry.host().step_wall.observe(ns);
                telemetry.host().launched(3, 1);
            }
            Act::Harvest => self.served.harvest(),
            Act::Promote => {
                // Some have no name, and some share one.
                let name = |func: u64| match func >> 8 {
                    func if func % 5 == 0 => None,
                    func => Some(format!("kernel {}", func / 2).into()),
                };
                telemetry.promote_kernels(name, str::to_owned);
            }
            Act::Configure(every, sampling) => {
                let config = TelemetryConfig { every, sampling, ..telemetry.config() };
                telemetry.configure(config).expect("a stride");
            }
            Act::Level(is_basic) => {
                telemetry.set_level(if is_basic { Level::Basic } else { Level::Kernel });
            }
            Act::Attach(count) => {
                let source: Arc<dyn RecorderSource> = Arc::new(Recorder(count));
                let weak: Weak<dyn RecorderSource> = Arc::downgrade(&source);
                telemetry.attach(weak).expect("the same GPU");
                self.recorders.push(source);
            }
            Act::Close => {
                if self.recorders.len() > 1 {
                    let source = self.recorders.swap_remove(0);
                    telemetry.detach(&source);
                }
            }
        }
    }
}

/// The counters of a page: also the parts of histograms.
fn counters(page: &str) -> BTreeMap<&str, f64> {
    let samples = page.lines().filter_map(|line| line.rsplit_once(' '));
    let is_counter = |series: &str| {
        let name = series.split('{').next().unwrap_or(series);
        let mut ends = ["_total", "_count", "_sum", "_bucket"].iter();
        ends.any(|end| name.ends_with(end))
    };
    samples
        .filter(|(series, _)| !series.starts_with('#') && is_counter(series))
        .map(|(series, value)| (series, value.parse().expect("a number")))
        .collect()
}

proptest! {
    #[test]
    fn no_counter_falls_and_none_goes(acts in prop::collection::vec(act(), 1..60)) {
        let mut rigs = [Rig::new(), Rig::new()];
        let mut before = String::new();
        for (at, act) in acts.into_iter().enumerate() {
            rigs[at % 2].act(act);
            // Two of one GPU, and so on one set of series.
            let snapshots = rigs.each_ref().map(|rig| rig.served.telemetry.snapshot());
            let page = text(&MetraleCollector::from_fn(move || snapshots.clone()));
            let now = counters(&page);
            prop_assert!(now.len() > 200, "{}", page);
            for (series, was) in counters(&before) {
                let is = now.get(series);
                prop_assert!(is.is_some_and(|is| *is >= was), "{} fell from {} to {:?}", series, was, is);
            }
            before = page;
        }
    }
}
