// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates from sampled steps against what simulated servers really did.

#![cfg(not(metrale_loom))]

mod served;

use metrale_telemetry::kernel::{
    ENOUGH_STEPS, KernelEstimate, LANE_DECODE, LANE_PREFILL, LANES, SpanKey, SpanPoll,
};
use metrale_telemetry::{Level, Sampling, Snapshot, TelemetryConfig};
use served::Served;
use std::collections::BTreeMap;

/// A stream of pseudo-random numbers.
struct Chance(fastrand::Rng);

impl Chance {
    fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// In 0..1.
    fn unit(&mut self) -> f64 {
        self.0.f64()
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Log-normal with median 1.
    fn spread(&mut self, sigma: f64) -> f64 {
        let normal: f64 = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
        (sigma * normal).exp()
    }
}

const GEMM: u64 = 0x10;
const ATTENTION: u64 = 0x20;
const SAMPLE: u64 = 0x30;
const PERIODIC: u64 = 0x40;
const RARE: u64 = 0x50;

/// Launches of a step as (lane, kernel, nanoseconds).
type Launches = Vec<(usize, u64, u64)>;

/// What a server's steps launch.
trait Steps {
    fn chance(&mut self) -> &mut Chance;
    fn step(&mut self, number: u64) -> Launches;
}

/// A server whose steps are drawn from one distribution.
struct Steady {
    chance: Chance,
    batch: f64,
    rare_rate: f64,
}

impl Steady {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        Self { batch: chance.between(4.0, 64.0), rare_rate: chance.between(0.6, 0.9), chance }
    }
}

impl Steps for Steady {
    fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }

    fn step(&mut self, _: u64) -> Launches {
        let Self { chance, batch, rare_rate } = self;
        let mut ns = |ns: f64, sigma| (ns * chance.spread(sigma)) as u64;
        let mut launches = vec![
            (LANE_DECODE, GEMM, ns(400_000.0, 0.2)),
            (LANE_DECODE, ATTENTION, ns(20_000.0 * *batch, 0.4)),
        ];
        if chance.unit() < *rare_rate {
            let ns = (60_000.0 * chance.spread(0.3)) as u64;
            launches.push((LANE_DECODE, RARE, ns));
        }
        launches
    }
}

/// A decode-heavy server: a batch that drifts, prefills of random length that
/// come at random, one kernel every P steps, one that comes seldom.
struct Drifting {
    chance: Chance,
    batch: f64,
    context: f64,
    period: u64,
    prefill_rate: f64,
    rare_rate: f64,
}

impl Drifting {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        Self {
            batch: chance.between(4.0, 64.0),
            context: chance.between(500.0, 4_000.0),
            period: chance.between(2.0, 200.0) as u64,
            prefill_rate: chance.between(0.02, 0.4),
            rare_rate: chance.between(0.05, 0.5),
            chance,
        }
    }
}

impl Steps for Drifting {
    fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }

    fn step(&mut self, number: u64) -> Launches {
        let chance = &mut self.chance;
        self.batch = (self.batch + chance.between(-1.0, 1.0)).clamp(1.0, 128.0);
        self.context = (self.context + chance.between(-40.0, 40.0)).clamp(100.0, 8_000.0);
        let mut launches = vec![
            (LANE_DECODE, GEMM, 400_000.0 + 3_000.0 * self.batch),
            (LANE_DECODE, ATTENTION, self.batch * self.context * chance.between(0.9, 1.1)),
            (LANE_DECODE, SAMPLE, 20_000.0 * chance.spread(0.2)),
        ];
        if number.is_multiple_of(self.period) {
            launches.push((LANE_DECODE, PERIODIC, 150_000.0 * chance.spread(0.1)));
        }
        if chance.unit() < self.rare_rate {
            launches.push((LANE_DECODE, RARE, 60_000.0 * chance.spread(0.3)));
        }
        if chance.unit() < self.prefill_rate {
            // Prompts are served in chunks: a step takes 2,048 tokens at most.
            let tokens = (600.0 * chance.spread(0.7)).min(2_048.0);
            launches.push((LANE_PREFILL, GEMM, 4_000.0 * tokens));
            launches.push((LANE_PREFILL, ATTENTION, 2.0 * tokens * tokens));
        }
        let whole = |(lane, func, ns): (usize, u64, f64)| (lane, func, ns as u64);
        launches.into_iter().map(whole).collect()
    }
}

/// What each kernel of a lane took.
type Sums = BTreeMap<(usize, u64), u64>;

/// Serves `steps` steps; what each kernel of a lane really took.
fn serve(served: &mut Served, server: &mut Drifting, steps: u64) -> Sums {
    serve_and_tell(served, server, steps).0
}

/// As [`serve`], and what its timed launches took.
fn serve_and_tell(served: &mut Served, server: &mut impl Steps, steps: u64) -> (Sums, Sums) {
    let (mut truth, mut timed) = (Sums::new(), Sums::new());
    for number in 0..steps {
        let step = served.telemetry.step_begin();
        let launches = server.step(number);
        let mut at_ns = 0;
        for lane in [LANE_PREFILL, LANE_DECODE] {
            let own = launches.iter().filter(|launch| launch.0 == lane);
            let idle_ns = server.chance().between(5_000.0, 60_000.0) as u64;
            let sum_ns: u64 = own.clone().map(|launch| launch.2).sum();
            if sum_ns == 0 {
                continue;
            }
            let lane_ns = SpanPoll::Ready(sum_ns + idle_ns);
            served.span(step, (SpanKey::Lane(lane), lane, 1), at_ns, lane_ns);
            for &(_, func, ns) in own {
                *truth.entry((lane, func)).or_insert(0) += ns;
                let telemetry = &served.telemetry;
                if step.is_armed() || (telemetry.spreads() && telemetry.sample_launch()) {
                    let kernel = (SpanKey::Kernel(func), lane, 1);
                    served.span(step, kernel, at_ns, SpanPoll::Ready(ns));
                    *timed.entry((lane, func)).or_insert(0) += ns;
                }
                at_ns += ns as i64;
            }
            at_ns += idle_ns as i64;
        }
        served.close(step);
    }
    served.harvest();
    (truth, timed)
}

fn config(every: u64, sampling: Sampling, seed: u64) -> TelemetryConfig {
    TelemetryConfig { level: Level::Kernel, every, sampling, seed }
}

/// How many claims two standard errors held, of how many, by lane and kernel.
fn held(sampling: Sampling, servers: u64) -> BTreeMap<(usize, u64), (u32, u32)> {
    let mut held = BTreeMap::new();
    for seed in 0..servers {
        let mut served = Served::new();
        let sampling = config(64, sampling, seed);
        served.telemetry.configure(sampling).unwrap();
        let mut server = Drifting::new(seed + 1);
        let steps = 64 * server.chance.between(40.0, 200.0) as u64;
        let truth = serve(&mut served, &mut server, steps);
        for KernelEstimate { func, lane, estimate, .. } in served.telemetry.kernel_estimates() {
            assert_eq!(estimate.error.is_some(), estimate.steps >= ENOUGH_STEPS);
            if let Some(error) = estimate.error {
                let off = estimate.total_ns - truth[&(lane, func)] as f64;
                let (held, claims) = held.entry((lane, func)).or_insert((0, 0));
                *held += u32::from(off.abs() <= 2.0 * error.total_ns);
                *claims += 1;
            }
        }
        assert_eq!(served.telemetry.step_losses(), Default::default());
    }
    held
}

/// Asserts that the claims held, over all of them and for each kernel that
/// made many.
fn assert_held(sampling: Sampling, servers: u64) {
    let found = held(sampling, servers);
    println!("{sampling:?}: {found:?}");
    let sum = |of: fn(&(u32, u32)) -> u32| found.values().map(of).sum::<u32>();
    let (held, claims) = (sum(|claims| claims.0), sum(|claims| claims.1));
    assert!(claims > 3 * servers as u32, "{claims} claims");
    assert!(f64::from(held) >= 0.93 * f64::from(claims), "{held} of {claims}");
    for (kernel, (held, claims)) in found {
        if claims >= 100 {
            let share = f64::from(held) / f64::from(claims);
            assert!(share >= 0.90, "{kernel:x?}: {held} of {claims}");
        }
    }
}

#[test]
fn two_standard_errors_hold_the_truth_of_a_thousand_servers() {
    assert_held(Sampling::Hashed, 1_000);
}

#[test]
fn and_where_launches_are_sampled_one_by_one() {
    assert_held(Sampling::Spread, 300);
}

/// Three to six servers with loads of their own, each of which timed a part of
/// its steps: what they say together.
#[test]
fn errors_of_a_merge_hold_the_truth_and_its_measured_sums_are_the_steps() {
    let (mut held, mut claims) = (0u32, 0u32);
    for seed in 0..250u64 {
        let mut chance = Chance::new(seed + 7_000);
        let mut truth = BTreeMap::new();
        let mut raw = BTreeMap::new();
        let mut merged: Option<Snapshot> = None;
        for process in 0..chance.between(3.0, 7.0) as u64 {
            let mut served = Served::new();
            let sampling = config(32, Sampling::Hashed, seed * 8 + process);
            served.telemetry.configure(sampling).unwrap();
            let mut server = Steady::new(seed * 8 + process + 1);
            let steps = 32 * chance.between(40.0, 120.0) as u64;
            let (all, timed) = serve_and_tell(&mut served, &mut server, steps);
            for (sum, own) in [(&mut truth, all), (&mut raw, timed)] {
                for (key, ns) in own {
                    *sum.entry(key).or_insert(0) += ns;
                }
            }
            let taken = served.named_snapshot();
            match &mut merged {
                None => merged = Some(taken),
                Some(merged) => merged.merge(&taken).unwrap(),
            }
        }
        let merged = merged.unwrap();
        for row in &merged.kernels {
            let func: u64 = row.name.as_deref().unwrap().parse().unwrap();
            let of = |key: &&(usize, u64)| key.1 == func;
            let timed: u64 = raw.keys().filter(of).map(|key| raw[key]).sum();
            assert_eq!(row.total_ns, timed, "set {seed}, {func:#x}");
            for own in &row.lanes {
                let lane = LANES.iter().position(|lane| *lane == own.lane).unwrap();
                if let Some(error) = own.estimate.error {
                    let off = own.estimate.total_ns - truth[&(lane, func)] as f64;
                    held += u32::from(off.abs() <= 2.0 * error.total_ns);
                    claims += 1;
                }
            }
        }
    }
    let share = f64::from(held) / f64::from(claims);
    println!("{held} of {claims}");
    assert!(claims > 700, "{claims} claims");
    assert!((0.92..=0.98).contains(&share), "{held} of {claims}");
}

#[test]
fn where_every_step_is_armed_the_estimate_is_the_sum() {
    let mut served = Served::new();
    served.telemetry.configure(config(1, Sampling::Hashed, 0)).unwrap();
    let truth = serve(&mut served, &mut Drifting::new(3), 500);
    let estimates = served.telemetry.kernel_estimates();
    assert_eq!(estimates.len(), truth.len());
    for found in estimates {
        let expected = truth[&(found.lane, found.func)] as f64;
        assert!((found.estimate.total_ns / expected - 1.0).abs() < 1e-12);
        if let Some(error) = found.estimate.error {
            assert_eq!((error.total_ns, error.share), (0.0, 0.0));
        }
    }
    // Launches do not overlap here: together they are the time that they cover.
    for lane in [LANE_PREFILL, LANE_DECODE] {
        let found = served.telemetry.lane_estimate(lane);
        let own = truth.iter().filter(|(key, _)| key.0 == lane);
        let covered: u64 = own.map(|(_, ns)| ns).sum();
        assert_eq!((found.armed_steps, found.armed_ns), (found.steps, found.total_ns));
        let share = found.covered.unwrap().share;
        assert!((share / (covered as f64 / found.total_ns as f64) - 1.0).abs() < 1e-12);
    }
}

#[test]
fn a_change_of_the_sampling_begins_anew() {
    let mut served = Served::new();
    let every_other = config(2, Sampling::Hashed, 0);
    served.telemetry.configure(every_other).unwrap();
    serve(&mut served, &mut Drifting::new(5), 1_000);
    let before = served.telemetry.lane_estimate(LANE_DECODE);
    assert_eq!((before.steps, before.armed_steps), (1_000, 500));

    // The level is no sampling.
    served.telemetry.set_level(Level::Basic);
    served.telemetry.set_level(Level::Kernel);
    assert_eq!(served.telemetry.lane_estimate(LANE_DECODE), before);

    // Steps that land late are of the old window: one is armed, one is not.
    let late = [(); 2].map(|()| served.telemetry.step_begin());
    assert_eq!(late.iter().filter(|step| step.is_armed()).count(), 1);
    for step in late {
        let long = SpanPoll::Ready(1 << 40);
        served.span(step, (SpanKey::Lane(LANE_DECODE), LANE_DECODE, 1), 0, long);
        served.span(step, (SpanKey::Kernel(GEMM), LANE_DECODE, 1), 0, long);
        served.close(step);
    }
    served.telemetry.configure(config(8, Sampling::Spread, 0)).unwrap();
    assert_eq!(served.telemetry.lane_estimate(LANE_DECODE), Default::default());
    assert_eq!(served.telemetry.kernel_estimates(), []);

    let truth = serve(&mut served, &mut Drifting::new(6), 4_000);
    let lane = served.telemetry.lane_estimate(LANE_DECODE);
    assert_eq!((lane.steps, lane.armed_steps, lane.armed_ns), (4_000, 0, 0));
    assert_eq!(lane.covered, None);
    let estimates = served.telemetry.kernel_estimates();
    let gemm = estimates.iter().find(|row| (row.func, row.lane) == (GEMM, LANE_DECODE)).unwrap();
    let expected = truth[&(LANE_DECODE, GEMM)] as f64;
    assert!((gemm.estimate.total_ns / expected - 1.0).abs() < 0.2, "{gemm:?}");
}

/// Lane time of steps that are not armed is added up before it is handed on.
#[test]
fn a_pass_over_steps_of_two_windows_counts_those_of_the_later_one() {
    let mut served = Served::new();
    served.telemetry.configure(config(64, Sampling::EveryNth, 0)).unwrap();
    let serve = |served: &mut Served, ns| {
        let step = served.telemetry.step_begin();
        let lane = (SpanKey::Lane(LANE_DECODE), LANE_DECODE, 1);
        served.span(step, lane, 0, SpanPoll::Ready(ns));
        served.close(step);
    };
    (0..8).for_each(|_| serve(&mut served, 1_000));
    served.telemetry.configure(config(32, Sampling::EveryNth, 0)).unwrap();
    (0..8).for_each(|_| serve(&mut served, 10));
    served.harvest();
    let lane = served.telemetry.lane_estimate(LANE_DECODE);
    assert_eq!((lane.steps, lane.total_ns), (8, 80));
}
