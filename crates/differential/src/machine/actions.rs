// SPDX-License-Identifier: MIT OR Apache-2.0
//! All that an application does, and tells its recorder: a line for each, with
//! how often it is drawn and what its numbers choose.

use super::{Machine, pick};
use crate::guest::Guest;
use crate::rules::Entry;
use crate::sequence::Operation;
use metrale_gpu_sim::control;
use metrale_gpu_sys::cuda::Status;
use serde::{Deserialize, Serialize};

/// Errors that stay.
const STICKY: &[u32] = &[0, 0, 226, 700, 719, 999];

macro_rules! actions {
    ($machine:ident, $operation:ident; $($name:ident $weight:literal: $act:expr;)*) => {
        /// What is done in an operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[allow(missing_docs, reason = "named after the driver's functions and the recorder's")]
        pub enum Action {
            $($name,)*
        }

        /// Each with its weight.
        pub(crate) const DRAWN: &[(u32, Action)] = &[$(($weight, Action::$name)),*];

        impl Machine {
            pub(super) fn act(&mut self, operation: &Operation) {
                let ($machine, $operation) = (self, operation);
                match operation.action {
                    $(Action::$name => $act,)*
                }
            }
        }
    };
}

actions! { m, t;
    Advance 12: control::advance_ns(u64::from(t.ns));
    // An error that every later call of the context tells; 0 heals.
    Sticky 1: if let Some(status) = pick(STICKY, t.n[1]) {
        control::set_sticky(m.context(t.first(0)), Status(*status));
    };
    CtxSetCurrent 2: m.ctx_set(t.first(0));
    CtxPush 2: m.ctx_push(t.first(0));
    CtxPop 2: m.ctx_pop();
    CtxGetCurrent 1: _ = m.current();
    CtxSynchronize 1: _ = call!(m, "cuCtxSynchronize");
    // A context beside the primary ones, on either device.
    CtxCreate 3: m.ctx_create(t.n[0]);
    // Of such a one; its recorders are closed first.
    CtxDestroy 4: m.ctx_destroy(t.n[0]);
    Mode 4: m.mode(u32::from(t.n[0] % 3));

    StreamCreate 6: m.stream_create(t.half(0));
    StreamDestroy 4: m.stream_destroy(t.n[0]);
    StreamQuery 3: _ = call!(m, "cuStreamQuery", m.stream(t.n[0]).handle => u64);
    StreamSynchronize 2: _ = call!(m, "cuStreamSynchronize", m.stream(t.n[0]).handle => u64);
    StreamWaitEvent 4: m.stream_wait(t.n[0], t.n[1], t.seldom(2));
    StreamGetCtx 1: m.stream_ctx(t.n[0]);
    StreamGetId 1: m.stream_id(t.n[0]);
    StreamIsCapturing 2: m.is_capturing(m.stream(t.n[0]).handle);
    StreamGetCaptureInfo 2: m.capture_info(t.n[0]);
    CaptureBegin 8: m.capture_begin(t.n[0], t.n[1] % 3);
    CaptureEnd 10: m.capture_end(t.n[0]);

    EventCreate 5: m.event_create(!t.seldom(0));
    EventDestroy 2: m.event_destroy(t.n[0]);
    EventRecord 8: m.event_record(t.n[0], t.n[1], t.seldom(2));
    EventQuery 4: m.event_query(t.n[0]);
    EventSynchronize 2: m.event_synchronize(t.n[0]);
    EventElapsed 4: m.elapsed(t.n[0], t.n[1]);

    ModuleLoad 2: m.module_load();
    // The recorders forget its functions first.
    ModuleUnload 1: m.module_unload(t.n[0]);
    FuncGetName 1: m.func_name(t.n[0]);
    // The last number: within a launch span of the recorder.
    Launch 16: m.launch_on(t.n[0], t.n[1], t.ns, t.half(2));
    GraphInstantiate 5: m.instantiate(t.n[0]);
    GraphDestroy 1: m.graph_destroy(t.n[0]);
    ExecDestroy 1: m.exec_destroy(t.n[0]);
    GraphLaunch 6: m.graph_launch(t.n[0], t.n[1], t.half(2));

    MemAlloc 3: m.mem_alloc(t.n[0], t.half(1));
    MemFree 1: m.mem_free(t.n[0], t.n[1], t.half(2));
    MemSet 2: m.memset(t.n[0], t.n[1], t.n[2], t.half(3));
    CopyIn 2: m.copy_in(t.n[0], t.n[1], t.n[2], t.half(3));
    CopyOut 2: m.copy_out(t.n[0], t.n[1], t.n[2], t.half(3));
    CopyWithin 2: m.copy_within(t.n[0], t.n[1], t.n[2], t.half(3));

    // A step with a lane and launches, by the recorder's guards.
    Serve 6: m.serve(t.n[0], t.n[1], t.n[2], (t.ns, t.n[3]));
    // A recorder for a context that has none.
    Install 3: m.install(t.first(0));
    // Closed, or dropped.
    Uninstall 1: m.uninstall(t.n[0], t.half(1));
    BeginLane 14: m.begin_lane(t.n[0], t.n[1], t.n[2], t.half(3));
    BeginLaunch 10: m.begin_launch(t.n[0], t.n[1], t.n[2], (!t.seldom(3), t.half(3)));
    // On its own stream, or on another.
    End 22: m.end_span(t.n[0], t.seldom(1).then_some(t.n[2]));
    Cancel 2: m.cancel_span(t.n[0]);
    // Ends or cancels a span that is over.
    EndAgain 1: m.end_again(t.n[0], t.half(1));
    // Spans are of a new step from here on; the one before is ended, or not.
    Step 5: m.step(t.n[0], t.half(1));
    Harvest 18: m.guest(t.n[0], Entry::Harvest, Guest::harvest);
    Read 1: m.guest(t.n[0], Entry::Quiet, |guest| guest.read());
}
