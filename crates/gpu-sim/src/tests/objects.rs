// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handles that come back, handles that are dead, names, special streams.

use std::ffi::CStr;
use std::ptr;

use super::{elapsed, function, launch, load, made, new_event, new_stream, start, told};
use crate::abi::{capture, context, event, graph, module, stream};
use crate::control;

#[test]
fn a_stream_handle_comes_back_at_once_with_another_id() {
    let _alone = crate::exclusive();
    start();
    let id = |stream| made::<u64>(|out| stream::cuStreamGetId(stream, Some(out)));
    let first = new_stream();
    let first_id = id(first);
    assert_eq!(stream::cuStreamDestroy_v2(first), 0);
    let second = new_stream();
    assert_eq!(second, first);
    assert!(id(second) > first_id);
    assert_eq!(control::stale_handle_uses(), 0);
}

#[test]
fn dead_handles_answer_400_and_are_counted() {
    let _alone = crate::exclusive();
    let context = start();
    let (event, stream) = (new_event(), new_stream());
    let module = load();
    let kernel = function(module, c"timed");
    assert_eq!(event::cuEventDestroy_v2(event), 0);
    assert_eq!(stream::cuStreamDestroy_v2(stream), 0);
    assert_eq!(module::cuModuleUnload(module), 0);
    assert_eq!(control::stale_handle_uses(), 0);

    assert_eq!(event::cuEventQuery(event), 400);
    assert_eq!(event::cuEventDestroy_v2(event), 400);
    let live = new_event();
    assert_eq!(live, event, "given out again: no longer dead");
    assert_eq!(event::cuEventRecord(live, stream), 400);
    let capturing = |out: &mut _| capture::cuStreamIsCapturing(stream, Some(out));
    assert_eq!(told(0, capturing).0, 400);
    assert_eq!(launch(kernel, 0, 1), 400);
    let name = |out: &mut _| module::cuFuncGetName(Some(out), kernel);
    assert_eq!(told(ptr::null(), name).0, 400);
    let graph = super::graphs::new_graph();
    assert_eq!([graph, graph, 0].map(|graph| graph::cuGraphDestroy(graph)), [0, 400, 1]);
    assert_eq!(control::stale_handle_uses(), 7);

    // An event goes with its context.
    assert_eq!(context::cuDevicePrimaryCtxRelease_v2(0), 0);
    assert_eq!(event::cuEventQuery(live), 400);
    assert_eq!(control::stale_handle_uses(), 8);
    assert_eq!(start(), context);
}

#[test]
fn a_module_loaded_again_gets_the_same_function_handles() {
    let _alone = crate::exclusive();
    start();
    let first = load();
    let kernels = [function(first, c"timed"), function(first, c"plain")];
    let mut listed = [0; 3];
    // SAFETY: room for three.
    let status = unsafe { module::cuModuleEnumerateFunctions(listed.as_mut_ptr(), 3, first) };
    assert_eq!((status, listed), (0, [kernels[0], kernels[1], 0]));
    let count = |out: &mut _| module::cuModuleGetFunctionCount(Some(out), first);
    assert_eq!(told(0, count), (0, 2));
    let owner = |out: &mut _| module::cuFuncGetModule(Some(out), kernels[1]);
    assert_eq!(told(0, owner), (0, first));
    let (status, name) = told(ptr::null(), |out| module::cuFuncGetName(Some(out), kernels[1]));
    assert_eq!(status, 0);
    // SAFETY: the module is still loaded.
    let name = unsafe { CStr::from_ptr(name) };
    assert_eq!(name, c"plain");
    assert_eq!(module::cuModuleUnload(first), 0);
    let again = load();
    let same = [function(again, c"timed"), function(again, c"plain")];
    assert_eq!(same, kernels);
}

#[test]
fn null_means_legacy_or_per_thread_by_the_symbol() {
    let _alone = crate::exclusive();
    start();
    let kernel = function(load(), c"timed");
    let (legacy, own) = (new_event(), new_event());
    assert_eq!(launch(kernel, 2, 1_000), 0, "per-thread stream");
    let free = new_stream();
    assert_eq!(event::cuEventRecord(own, free), 0);
    assert_eq!(event::cuEventQuery(own), 0, "a non-blocking stream is free");
    // Only the per-thread stream is busy; the legacy stream waits for it.
    assert_eq!(event::cuEventRecord_ptsz(own, 0), 0);
    assert_eq!(event::cuEventRecord(legacy, 0), 0);
    let explicit = new_event();
    assert_eq!(event::cuEventRecord_ptsz(explicit, 1), 0, "1 is always legacy");
    assert_eq!(event::cuEventQuery(explicit), 600);
    assert_eq!(event::cuEventQuery(own), 600);
    assert_eq!(event::cuEventQuery(legacy), 600);
    control::advance_ns(1_000);
    assert_eq!(elapsed(own, legacy), (0, 0.0));
    // Another thread's per-thread stream is another stream.
    assert_eq!(launch(kernel, 2, 1_000), 0);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            start();
            (stream::cuStreamQuery(2), stream::cuStreamQuery(1))
        });
        assert_eq!(other.join().expect("no panic"), (0, 600));
    });
    assert_eq!(stream::cuStreamQuery(2), 600);
}

#[test]
fn a_reset_primary_context_takes_its_objects_along() {
    let _alone = crate::exclusive();
    let context = start();
    let event = new_event();
    let id = || made::<u64>(|out| context::cuCtxGetId(context, Some(out)));
    let first = id();
    assert_eq!(context::cuCtxDestroy_v2(context), 201, "not a primary one");
    assert_eq!(id(), first);
    assert_eq!(context::cuDevicePrimaryCtxReset_v2(0), 0);
    assert_eq!(event::cuEventQuery(event), 400);
    assert!(id() > first, "the same handle, another context");
}

#[test]
fn a_kernel_runs_only_in_its_own_context() {
    let _alone = crate::exclusive();
    start();
    let kernel = function(load(), c"timed");
    let own = new_stream();
    let _other: u64 = made(|out| context::cuCtxCreate_v2(Some(out), 0, 0));
    let foreign = new_stream();
    assert_eq!(launch(kernel, foreign, 1), 400);
    assert_eq!(launch(kernel, own, 1), 0, "a stream brings its context");
}

#[test]
fn a_lazily_loaded_kernel_is_an_unsafe_call_at_its_first_launch() {
    let _alone = crate::exclusive();
    start();
    control::set_lazy_loading(true);
    let kernel = function(load(), c"timed");
    let stream = new_stream();
    let capture = |mode| {
        assert_eq!(capture::cuStreamBeginCapture_v2(stream, mode), 0);
        let launched = launch(kernel, stream, 1);
        let end = |out: &mut _| capture::cuStreamEndCapture(stream, Some(out));
        (launched, told(0, end).0)
    };
    assert_eq!(capture(0), (900, 901));
    assert_eq!(launch(kernel, stream, 1), 0, "loads it");
    assert_eq!(capture(0), (0, 0));
}

/// Asks about an event when its thread's values are torn down.
struct AsksAtTheEnd(u64, std::sync::mpsc::Sender<u32>);

impl Drop for AsksAtTheEnd {
    fn drop(&mut self) {
        // The receiver may be gone only if the test failed already.
        let _outcome = self.1.send(event::cuEventQuery(self.0));
    }
}

#[test]
fn a_call_while_a_thread_is_torn_down() {
    thread_local! {
        static LATE: std::cell::OnceCell<AsksAtTheEnd> = const { std::cell::OnceCell::new() };
    }
    let _alone = crate::exclusive();
    start();
    let event = new_event();
    let (sender, answers) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        LATE.with(|late| {
            late.get_or_init(|| AsksAtTheEnd(event, sender));
        });
        // The simulator is first used here on this thread, after `LATE`.
        event::cuEventQuery(event)
    });
    assert_eq!(thread.join().expect("no panic"), 0);
    assert_eq!(answers.recv(), Ok(0));
}
