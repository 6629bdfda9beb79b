// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs that captures made.

use super::{MAX_OBJECTS, Machine, pick};
use crate::cuda::CUDA;
use crate::guest::What;

impl Machine {
    /// How many nodes the graph has.
    pub(super) fn see_graph(&mut self, graph: u64) {
        let mut nodes = 0;
        let status = self.call(&CUDA.graph_nodes, |call| {
            // SAFETY: no nodes are asked for, only their number.
            unsafe { call(graph, std::ptr::null_mut(), &mut nodes) }
        });
        self.see("the graph's nodes", status.0, nodes as u64);
    }

    pub(super) fn instantiate(&mut self, g: u8) {
        let Some(&graph) = pick(&self.graphs, g) else {
            return;
        };
        if self.execs.len() >= MAX_OBJECTS {
            return;
        }
        let mut exec = 0;
        let made = self.call(&CUDA.instantiate, |call| call(&mut exec, graph, 0));
        if made.is_success() {
            self.execs.push(exec);
        }
    }

    pub(super) fn graph_destroy(&mut self, g: u8) {
        let Some(&graph) = pick(&self.graphs, g) else {
            return;
        };
        let gone = self.call(&CUDA.graph_destroy, |call| call(graph));
        if gone.is_success() {
            self.graphs.retain(|known| *known != graph);
        }
    }

    pub(super) fn exec_destroy(&mut self, x: u8) {
        let Some(&exec) = pick(&self.execs, x) else {
            return;
        };
        let gone = self.call(&CUDA.exec_destroy, |call| call(exec));
        if gone.is_success() {
            self.execs.retain(|known| *known != exec);
        }
    }

    pub(super) fn graph_launch(&mut self, x: u8, s: u8, span: bool) {
        let Some(&exec) = pick(&self.execs, x) else {
            return;
        };
        let stream = self.stream(s);
        self.within_span(What::Graph(x), stream, span, |app| {
            app.call(&CUDA.graph_launch, |call| call(exec, stream.handle))
        });
    }
}
