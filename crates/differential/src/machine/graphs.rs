// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs that captures made.

use super::{MAX_OBJECTS, Machine, pick};
use crate::guest::What;

impl Machine {
    /// How many nodes the graph has.
    pub(super) fn see_graph(&mut self, graph: u64) {
        let mut nodes = 0usize;
        let none = std::ptr::null_mut();
        let status = call!(self, "cuGraphGetNodes", graph => u64, none => *mut u64,
            &raw mut nodes => *mut usize);
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
        let made = call!(self, "cuGraphInstantiateWithFlags", &raw mut exec => *mut u64,
            graph => u64, 0 => u64);
        if made.is_success() {
            self.execs.push(exec);
        }
    }

    pub(super) fn graph_destroy(&mut self, g: u8) {
        let Some(&graph) = pick(&self.graphs, g) else {
            return;
        };
        if call!(self, "cuGraphDestroy", graph => u64).is_success() {
            self.graphs.retain(|known| *known != graph);
        }
    }

    pub(super) fn exec_destroy(&mut self, x: u8) {
        let Some(&exec) = pick(&self.execs, x) else {
            return;
        };
        if call!(self, "cuGraphExecDestroy", exec => u64).is_success() {
            self.execs.retain(|known| *known != exec);
        }
    }

    pub(super) fn graph_launch(&mut self, x: u8, s: u8, span: bool) {
        let Some(&exec) = pick(&self.execs, x) else {
            return;
        };
        let stream = self.stream(s);
        self.within_span(
            What::Graph(x),
            stream,
            span,
            |app| call!(app, "cuGraphLaunch", exec => u64, stream.handle => u64),
        );
    }
}
