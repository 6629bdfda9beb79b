// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs by their recipes.

use super::program::{BRANCHES, Recipe, Work};
use super::run::{BYTES, Run};
use metrale_gpu_sim::{app, cu};
use metrale_gpu_sys::cuda::CUgraphEdgeData;

impl Run<'_> {
    /// A graph by a recipe, with times so much longer; its kernels.
    pub(super) fn capture(&mut self, recipe: &Recipe, longer: u64) -> (u64, Vec<u64>) {
        let branches: [u64; BRANCHES] = std::array::from_fn(|_| self.app.new_stream());
        let mut is_joined = [true, false, false];
        self.app.begin_capture(branches[0], app::THREAD_LOCAL);
        for (branch, behind, work) in &recipe.works {
            let on = branches[*branch];
            if !std::mem::replace(&mut is_joined[*branch], true) {
                self.order(branches[0], on);
            }
            if let Some(behind) = behind.filter(|behind| behind != branch && is_joined[*behind]) {
                self.order(branches[behind], on);
            }
            let (first, second) = (self.buffers[2 * branch], self.buffers[2 * branch + 1]);
            let done = match *work {
                Work::Kernel(other, ns) => {
                    let kernel = if other { self.app.other } else { self.app.spin };
                    self.app.launch(kernel, on, u64::from(ns) * longer)
                }
                Work::Set(value) => {
                    cu!("cuMemsetD8Async", first => u64, value => u8, BYTES => usize, on => u64)
                }
                Work::Copy(back) => {
                    let (from, to) = if back { (second, first) } else { (first, second) };
                    cu!("cuMemcpyDtoDAsync_v2", to => u64, from => u64, BYTES => usize, on => u64)
                }
            };
            assert!(done.is_success());
        }
        for branch in (1..BRANCHES).filter(|branch| is_joined[*branch]) {
            self.order(branches[branch], branches[0]);
        }
        let graph = self.end_capture(branches[0]);
        if let Some(behind) = recipe.child {
            self.add_child(graph, behind.into());
        }
        let kernels: Vec<u64> = app::nodes(graph)
            .unwrap_or_default()
            .into_iter()
            .filter(|node| is_kernel(*node))
            .collect();
        for (from, to) in &recipe.edges {
            add_programmatic(graph, &kernels, usize::from(*from), usize::from(*to));
        }
        for branch in branches {
            self.app.destroy_stream(branch);
        }
        (graph, kernels)
    }

    fn add_child(&mut self, graph: u64, behind: usize) {
        let on = self.app.new_stream();
        self.app.begin_capture(on, app::THREAD_LOCAL);
        for kernel in [self.app.spin, self.app.other] {
            assert!(self.app.launch(kernel, on, 3_000).is_success());
        }
        let child = self.end_capture(on);
        let (before, mut node) = (app::nodes(graph).unwrap_or_default(), 0u64);
        let behind = behind % (before.len() + 1);
        let added = cu!("cuGraphAddChildGraphNode", &raw mut node => *mut u64, graph => u64, before.as_ptr() => *const u64, behind => usize, child => u64);
        assert!(added.is_success());
        self.app.destroy_stream(on);
    }
}

fn is_kernel(node: u64) -> bool {
    let mut kind = u32::MAX;
    let told = cu!("cuGraphNodeGetType", node => u64, &raw mut kind => *mut u32);
    told.is_success() && kind == 0
}

/// From an earlier kernel to a later one, unless there is an edge already.
fn add_programmatic(graph: u64, kernels: &[u64], from: usize, to: usize) {
    if kernels.is_empty() {
        return;
    }
    let (from, to) = (from % kernels.len(), to % kernels.len());
    let ends = [kernels[from.min(to)], kernels[from.max(to)]];
    let data = CUgraphEdgeData { kind: 1, ..CUgraphEdgeData::default() };
    let _ = cu!("cuGraphAddDependencies_v2", graph => u64, &raw const ends[0] => *const u64, &raw const ends[1] => *const u64, &raw const data => *const CUgraphEdgeData, usize::from(from != to) => usize);
}
