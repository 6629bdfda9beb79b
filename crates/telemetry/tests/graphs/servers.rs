// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers whose kernels drift, and what two standard errors are worth there.

use super::twinned::{Graph, Twin, edge};
use metrale_telemetry::kernel::ENOUGH_STEPS;
use metrale_telemetry::runtime::{GraphEstimates, GraphTotal, NodeRow, Plan, Planner};
use metrale_telemetry::snapshot::{GraphFigures, GraphRow};
use std::collections::BTreeMap;

/// Kernels of a layer: after the third two more run beside it.
const LAYER: u64 = 10;
/// Plain launches for each of the twin.
const PLAIN: u32 = 4;
/// A kernel at the end of the graph, once.
const HEAD: u64 = 100;

/// A decode graph: layers of the same kernels, three of which run side by side,
/// and a head.
fn decode(layers: u32) -> Graph {
    let mut graph = Graph::chain(layers * LAYER as u32 + 1, |node| u64::from(node) % LAYER);
    for layer in 0..layers {
        let third = layer * LAYER as u32 + 2;
        for func in [20, 21] {
            let node = graph.nodes() as u32;
            graph.rows.push(NodeRow::Kernel(func));
            graph.edges.push(edge(third - 1, node));
            graph.edges.push(edge(node, third + 1));
        }
    }
    graph.rows[layers as usize * LAYER as usize] = NodeRow::Kernel(HEAD);
    graph
}

/// A server whose kernels drift from plan to plan, each by itself and all
/// together.
pub(super) struct Server {
    chance: fastrand::Rng,
    pub(super) graph: Graph,
    /// Of each node: that of its kernel, and its own part of it.
    base_ns: Vec<f64>,
    /// As drifted.
    mean_ns: Vec<f64>,
    drifts: BTreeMap<NodeRow, f64>,
    load: f64,
    /// How much of a drift is left a plan later.
    keep: f64,
}

impl Server {
    pub(super) fn new(seed: u64, graph: Graph) -> Self {
        let mut chance = fastrand::Rng::with_seed(seed);
        let (keep, differ) = (chance.f64(), chance.f64());
        let mut kernels = BTreeMap::new();
        let base = |row: &NodeRow| {
            let kernel =
                *kernels.entry(*row).or_insert_with(|| 2_000.0 * (3.0 * chance.f64()).exp());
            kernel * (1.0 + differ * (chance.f64() - 0.5))
        };
        Self {
            mean_ns: Vec::new(),
            base_ns: graph.rows.iter().map(base).collect(),
            drifts: graph.rows.iter().map(|row| (*row, 0.0)).collect(),
            load: 0.0,
            keep,
            graph,
            chance,
        }
    }

    /// About normal, with variance 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.chance.f64()).sum::<f64>() - 6.0
    }

    pub(super) fn drift(&mut self) {
        self.load = self.keep * self.load + 0.05 * self.normal();
        for row in self.drifts.clone().into_keys() {
            let keep = self.keep;
            let step = 0.04 * self.normal();
            self.drifts.entry(row).and_modify(|drift| *drift = keep * *drift + step);
        }
        let mean = |(row, base): (&NodeRow, &f64)| base * (self.drifts[row] + self.load).exp();
        self.mean_ns = self.graph.rows.iter().zip(&self.base_ns).map(mean).collect();
    }

    /// What each node takes on a launch.
    pub(super) fn launch(&mut self) -> Vec<u64> {
        let noise = |mean: &f64| (mean * (0.95 + 0.1 * self.chance.f64())) as u64;
        self.mean_ns.iter().map(noise).collect()
    }
}

/// What the rows took on plain launches, and all of these.
#[derive(Default)]
pub(super) struct Truth {
    rows: BTreeMap<NodeRow, u64>,
    pub(super) total_ns: u64,
}

impl Truth {
    pub(super) fn add(&mut self, graph: &Graph, plain: &Twin, ns: &[u64]) {
        for (row, ns) in graph.rows.iter().zip(ns) {
            *self.rows.entry(*row).or_insert(0) += ns;
        }
        self.total_ns += plain.run(ns, 0).end;
    }

    pub(super) fn figures(&self, estimates: &GraphEstimates) -> GraphFigures {
        let total = GraphTotal { ns: self.total_ns as f64, error_ns: Some(0.0) };
        estimates.figures(total, |func| Some(func.to_string()))
    }

    /// What a row really took.
    pub(super) fn of(&self, row: &GraphRow) -> u64 {
        let func = row.name.as_deref().and_then(|name| name.parse().ok());
        self.rows[&NodeRow::Kernel(func.unwrap())]
    }
}

/// Serves `plans` plans of so many launches of the twin, each beside [`PLAIN`]
/// plain ones; a mark costs `mark_ns`.
pub(super) fn serve(
    server: &mut Server,
    planner: &mut Planner,
    (plans, launches): (u32, u32),
    mark_ns: u64,
) -> (Truth, GraphEstimates) {
    let (mut truth, mut estimates) = (Truth::default(), planner.estimates());
    let plain = server.graph.twin(&[]);
    let mut plan: Option<(Plan, Twin)> = None;
    for _ in 0..plans {
        server.drift();
        if plan.as_ref().is_none_or(|(plan, _)| !plan.is_complete()) {
            let next = planner.plan();
            let twin = server.graph.twin(next.marks());
            plan = Some((next, twin));
        }
        let (plan, twin) = plan.as_ref().unwrap();
        for _ in 0..launches {
            for _ in 0..PLAIN {
                let ns = server.launch();
                truth.add(&server.graph, &plain, &ns);
            }
            let run = twin.run(&server.launch(), mark_ns);
            estimates.add(&plan.read(&run.stamps).unwrap(), run.end);
        }
    }
    (truth, estimates)
}

/// What came of claims that the truth is within two errors.
#[derive(Default)]
struct Claims {
    made: u32,
    held: u32,
    /// Squares of how many errors the truth was off.
    squares: f64,
}

/// By kernel.
fn claims_of(servers: u64, marks: usize, launches: u32) -> BTreeMap<String, Claims> {
    let mut claims: BTreeMap<String, Claims> = BTreeMap::new();
    for seed in 0..servers {
        let mut server = Server::new(seed, decode(8));
        let mut planner = server.graph.planner(marks, seed);
        let plans = 20 + server.chance.u32(0..40);
        let (truth, estimates) = serve(&mut server, &mut planner, (plans, launches), 1_200);
        for row in truth.figures(&estimates).rows {
            if let Some(error) = row.estimate.error {
                assert!(row.estimate.steps >= ENOUGH_STEPS);
                let off = (row.estimate.total_ns - truth.of(&row) as f64) / error.total_ns;
                let claims = claims.entry(row.name.unwrap()).or_default();
                claims.made += 1;
                claims.held += u32::from(off.abs() <= 2.0);
                claims.squares += off * off;
            }
        }
    }
    claims
}

/// Asserts that the claims held, over all of them and for each kernel, and that
/// the errors are not so large that any would.
fn assert_held(claims: &BTreeMap<String, Claims>, servers: u32) {
    let (mut all, mut all_held) = (0, 0);
    for (kernel, Claims { made, held, squares }) in claims {
        let off = (squares / f64::from(*made)).sqrt();
        println!("{kernel}: {held} of {made}, off by {off:.2} errors");
        assert!(100 * held >= 93 * made, "{kernel}: {held} of {made}");
        assert!(off > 0.2, "{kernel}: off by {off:.2} errors");
        (all, all_held) = (all + made, all_held + held);
    }
    assert!(all > 12 * servers, "{all} claims");
    assert!(100 * all_held >= 93 * all, "{all_held} of {all}");
}

#[test]
fn two_standard_errors_hold_the_truth_of_a_thousand_servers() {
    assert_held(&claims_of(1_000, 32, 6), 1_000);
}

#[test]
fn and_where_every_node_has_a_mark() {
    assert_held(&claims_of(200, 200, 6), 200);
}
