// SPDX-License-Identifier: MIT OR Apache-2.0
//! Marks order nothing that was not ordered, and leave every edge as it was: random
//! graphs against their twins, by a closure that is worked out here.

use crate::rig::{App, cu};
use crate::twin_rig::{
    always, assert_no_mistakes, instantiated, nodes, recorder, replay, settle, settled_twin,
};
use metrale_gpu_runtime::timing::{Status, TwinState, TwinsConfig};
use metrale_gpu_sim::control;
use metrale_gpu_sys::cuda::{CUgraphEdgeData, CUkernelNodeParams};
use std::collections::BTreeMap;
use std::ffi::c_void;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// What the kernels of a graph take, by function.
type Times = BTreeMap<u64, u64>;

/// A graph of so many kernels with random edges, some of them programmatic.
fn random_graph(app: &App, random: &mut Random, count: u64) -> (u64, Times) {
    let mut times = Times::new();
    let mut graph = 0u64;
    let made = cu!("cuGraphCreate", &raw mut graph => *mut u64, 0 => u32);
    assert_eq!(made, Status::SUCCESS);
    let mut nodes: Vec<u64> = Vec::new();
    for at in 0..count {
        let mut ns = 1_000 + random.below(50_000);
        let mut arguments = [(&raw mut ns).cast::<c_void>()];
        let function = [app.spin, app.other][random.below(2) as usize];
        *times.entry(function).or_default() += ns;
        let params = CUkernelNodeParams {
            function: function as *mut c_void,
            grid: [1; 3],
            block: [1; 3],
            parameters: arguments.as_mut_ptr(),
            ..CUkernelNodeParams::default()
        };
        let mut node = 0u64;
        let none = std::ptr::null::<u64>();
        let made = cu!("cuGraphAddKernelNode_v2", &raw mut node => *mut u64, graph => u64, none => *const u64, 0 => usize, &raw const params => *const CUkernelNodeParams);
        assert_eq!(made, Status::SUCCESS);
        let mut before: Vec<u64> = (0..random.below(3).min(at)).map(|_| random.below(at)).collect();
        // Mostly a chain.
        if at > 0 && random.below(4) > 0 {
            before.push(at - 1);
        }
        before.sort_unstable();
        before.dedup();
        for from in before {
            let kind = u8::from(random.below(5) == 0);
            let data = CUgraphEdgeData { kind, ..CUgraphEdgeData::default() };
            let from = [nodes[from as usize]];
            let to = [node];
            let added = cu!("cuGraphAddDependencies_v2", graph => u64, from.as_ptr() => *const u64, to.as_ptr() => *const u64, &raw const data => *const CUgraphEdgeData, 1 => usize);
            assert_eq!(added, Status::SUCCESS);
        }
        nodes.push(node);
    }
    (graph, times)
}

fn edges(graph: u64) -> Vec<(u64, u64, CUgraphEdgeData)> {
    const MOST: usize = 4_096;
    let mut count = MOST;
    let (mut from, mut to) = (vec![0u64; MOST], vec![0u64; MOST]);
    let mut data = vec![CUgraphEdgeData::default(); MOST];
    let told = cu!("cuGraphGetEdges_v2", graph => u64, from.as_mut_ptr() => *mut u64, to.as_mut_ptr() => *mut u64, data.as_mut_ptr() => *mut CUgraphEdgeData, &raw mut count => *mut usize);
    assert_eq!(told, Status::SUCCESS);
    let ends = from.into_iter().zip(to).zip(data).take(count);
    ends.map(|((from, to), data)| (from, to, data)).collect()
}

/// Which node is before which: Warshall's closure over all pairs.
fn closure(nodes: &[u64], edges: &[(u64, u64, CUgraphEdgeData)]) -> Vec<Vec<bool>> {
    let place: BTreeMap<u64, usize> = nodes.iter().copied().zip(0..).collect();
    let mut before = vec![vec![false; nodes.len()]; nodes.len()];
    for (from, to, _) in edges {
        before[place[from]][place[to]] = true;
    }
    for over in 0..nodes.len() {
        let second = before[over].clone();
        for first in &mut before {
            if first[over] {
                for (to, reaches) in first.iter_mut().zip(&second) {
                    *to |= reaches;
                }
            }
        }
    }
    before
}

#[test]
fn what_is_ordered_is_ordered_in_the_twin_and_nothing_else_is() {
    let app = App::new();
    let mut random = Random(7);
    for round in 0..60u64 {
        let marks = if round % 2 == 0 { 64 } else { 9 };
        let twins = TwinsConfig { marks, plan_launches: 1, ..always() };
        let recorder = recorder(&app, twins);
        let count = 1 + random.below(40);
        let (source, times) = random_graph(&app, &mut random, count);
        let originals = nodes(source);
        control::log_clear();
        control::log_start();
        let twin = settled_twin(&recorder, instantiated(source), app.stream);
        for _ in 0..3 {
            control::log_stop();
            let calls = control::log();
            // Of the application's instantiation and of the twin's: the last is ours.
            let made = calls.iter().rfind(|call| call.name == "cuGraphInstantiateWithFlags");
            let copy = made.expect("an executable was made").handle;
            assert_ne!(copy, source);
            let counterparts: Vec<u64> = originals
                .iter()
                .map(|original| {
                    let mut found = 0u64;
                    let told = cu!("cuGraphNodeFindInClone", &raw mut found => *mut u64, *original => u64, copy => u64);
                    assert_eq!(told, Status::SUCCESS);
                    found
                })
                .collect();
            let (ours, theirs) = (edges(copy), edges(source));
            // Every edge is kept, with its data.
            let counterpart: BTreeMap<u64, u64> =
                originals.iter().copied().zip(counterparts.iter().copied()).collect();
            for (from, to, data) in &theirs {
                let kept = (counterpart[from], counterpart[to], *data);
                assert!(ours.contains(&kept), "round {round}");
            }
            let mut all = nodes(copy);
            all.retain(|node| !counterparts.contains(node));
            let mut ordered = counterparts.clone();
            ordered.extend(&all);
            let with_marks = closure(&ordered, &ours);
            let without = closure(&originals, &theirs);
            for (one, row) in without.iter().enumerate() {
                assert_eq!(with_marks[one][..row.len()], row[..], "round {round}");
            }
            // A mark comes before all that is behind the node that it is behind.
            let place = |node: &u64| ordered.iter().position(|known| known == node).unwrap();
            let is_mark = |node: &u64| all.contains(node);
            for (from, mark, _) in ours.iter().filter(|(_, to, _)| is_mark(to)) {
                for (_, behind, _) in ours.iter().filter(|(of, to, _)| of == from && !is_mark(to)) {
                    assert!(with_marks[place(mark)][place(behind)], "round {round}");
                }
            }
            assert!(all.len() <= marks && all.len() >= 2, "round {round}");
            control::log_clear();
            control::log_start();
            replay(&recorder, &twin, app.stream).expect("a launch");
            settle(&recorder);
            assert_eq!(twin.state(), TwinState::Ready);
            if marks == 64 {
                // Marked whole: there is no next plan.
                break;
            }
            let before = metrale_gpu_sim::app::calls("cuGraphInstantiateWithFlags");
            twin.renew();
            settle(&recorder);
            if metrale_gpu_sim::app::calls("cuGraphInstantiateWithFlags") == before {
                break;
            }
        }
        control::log_stop();
        let ledger = recorder.twin_ledger();
        assert!(ledger.launched >= 1 && ledger.read == ledger.launched, "{ledger:?}");
        assert_no_mistakes();
        // Marked whole, rows are what the driver ran, also side by side.
        if marks == 64 {
            let figures = &recorder.telemetry().snapshot().graphs[0].figures;
            let told: BTreeMap<_, _> =
                figures.rows.iter().map(|row| (row.name.as_deref(), row.sampled_ns)).collect();
            let name = |function: &u64| Some(if *function == app.spin { "spin" } else { "other" });
            let ran = times.iter().map(|(function, ns)| (name(function), *ns));
            assert_eq!(told, ran.collect(), "round {round}");
        }
    }
}
