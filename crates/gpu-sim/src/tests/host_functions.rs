// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of the host in streams and graphs.

use std::ffi::c_void;
use std::ptr::from_ref;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, ThreadId};
use std::time::Duration;

use metrale_gpu_sys::cuda::Status;

use super::graphs::{instantiate, kernel, mark, new_graph};
use super::{elapsed, function, launch, load, made, new_event, new_stream, start, told};
use crate::abi::graph_nodes::{self, HostParams};
use crate::abi::{capture, context, event, exec, launch as launches, stream};
use crate::control;

/// What a host function finds as it begins.
#[derive(Debug, PartialEq)]
struct Seen {
    now: u64,
    thread: ThreadId,
    /// Of a driver call within it.
    status: u32,
}

/// A host function's side: it tells what it sees and returns once it is let go, or the test is over.
struct Held {
    seen: Sender<Seen>,
    go: Mutex<Receiver<()>>,
}

/// The test's side of one.
struct Function {
    held: &'static Held,
    seen: Receiver<Seen>,
    go: Sender<()>,
}

extern "C" fn run(data: *mut c_void) {
    // SAFETY: a `Held`, which lives for ever.
    let held = unsafe { &*data.cast::<Held>() };
    let mut mode = 2;
    let status = capture::cuThreadExchangeStreamCaptureMode(Some(&mut mode));
    let seen = Seen { now: control::now_ns(), thread: thread::current().id(), status };
    // Nobody listens, or lets it go, in a test that failed already.
    let _told = held.seen.send(seen);
    let _gone = held.go.lock().map(|go| go.recv());
}

impl Function {
    fn new() -> Self {
        let ((seen, told), (go, gone)) = (channel(), channel());
        let held = Box::leak(Box::new(Held { seen, go: Mutex::new(gone) }));
        Self { held, seen: told, go }
    }

    fn data(&self) -> *mut c_void {
        from_ref(self.held).cast_mut().cast()
    }

    /// Gives it to a stream.
    fn launch(&self, stream: u64) {
        assert_eq!(launches::cuLaunchHostFunc(stream, Some(run), self.data()), 0);
    }

    /// Waits until it runs.
    fn begun(&self) -> Seen {
        self.seen.recv_timeout(Duration::from_secs(60)).expect("it begins")
    }

    fn let_go(&self) {
        self.go.send(()).expect("it is there");
    }
}

#[test]
fn a_function_begins_behind_what_comes_before_it() {
    let _alone = crate::exclusive();
    start();
    let timed = function(load(), c"timed");
    let (stream, function) = (new_stream(), Function::new());
    let [before, after, last] = [(); 3].map(|()| new_event());
    assert_eq!(launches::cuLaunchHostFunc(stream, None, function.data()), 1);
    assert_eq!(launch(timed, stream, 100), 0);
    assert_eq!(event::cuEventRecord(before, stream), 0);
    function.launch(stream);
    assert_eq!(event::cuEventRecord(after, stream), 0);
    assert_eq!(launch(timed, stream, 50), 0);
    assert_eq!(event::cuEventRecord(last, stream), 0);
    assert_eq!(event::cuEventSynchronize(before), 0);
    let seen = function.begun();
    assert_eq!((seen.now, seen.status), (100, 800));
    assert_ne!(seen.thread, thread::current().id());
    // It runs, and what comes after it waits.
    control::advance_ns(1_000);
    assert_eq!([before, after, last].map(|event| event::cuEventQuery(event)), [0, 600, 600]);
    assert_eq!(stream::cuStreamQuery(stream), 600);
    assert_eq!(elapsed(before, after).0, 600);
    function.let_go();
    assert_eq!(stream::cuStreamSynchronize(stream), 0);
    assert_eq!(control::now_ns(), 1_150);
    assert_eq!(elapsed(before, after), (0, 0.001), "as long as it was held");
    assert_eq!(elapsed(after, last), (0, 0.00005));
}

/// Virtual time stops at each function on the way of a wait, and a function that returns
/// takes none: the same in every run.
#[test]
fn a_wait_goes_from_function_to_function() {
    let _alone = crate::exclusive();
    for _ in 0..50 {
        control::reset();
        start();
        let timed = function(load(), c"timed");
        let (main, side, joined) = (new_stream(), new_stream(), new_event());
        let functions = [(); 3].map(|()| Function::new());
        functions.iter().for_each(Function::let_go);
        assert_eq!(launch(timed, main, 30), 0);
        functions[0].launch(main);
        assert_eq!(launch(timed, main, 40), 0);
        functions[1].launch(main);
        assert_eq!(launch(timed, side, 50), 0);
        functions[2].launch(side);
        assert_eq!(event::cuEventRecord(joined, side), 0);
        assert_eq!(stream::cuStreamWaitEvent(main, joined, 0), 0);
        assert_eq!(launch(timed, main, 5), 0);
        assert_eq!(stream::cuStreamSynchronize(main), 0);
        assert_eq!(functions.each_ref().map(|function| function.begun().now), [30, 70, 50]);
        assert_eq!(control::now_ns(), 75);
    }
}

#[test]
fn other_streams_are_not_held_back_and_the_legacy_stream_is() {
    let _alone = crate::exclusive();
    start();
    let blocking = made(|out| stream::cuStreamCreate(Some(out), 0));
    let (apart, done, function) = (new_stream(), new_event(), Function::new());
    function.launch(blocking);
    function.begun();
    assert_eq!(event::cuEventRecord(done, apart), 0);
    assert_eq!(event::cuEventSynchronize(done), 0);
    assert_eq!([stream::cuStreamQuery(apart), stream::cuStreamQuery(1)], [0, 600]);
    let waits = new_stream();
    assert_eq!(event::cuEventRecord(done, blocking), 0);
    assert_eq!(stream::cuStreamWaitEvent(waits, done, 0), 0);
    assert_eq!(stream::cuStreamQuery(waits), 600, "it waits for an event behind it");
    // What was recorded lives on without its stream.
    assert_eq!(stream::cuStreamDestroy_v2(blocking), 0);
    assert_eq!(event::cuEventQuery(done), 600);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| event::cuEventSynchronize(done));
        thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        function.let_go();
        assert_eq!(waiting.join().expect("no panic"), 0);
    });
    assert_eq!(stream::cuStreamQuery(waits), 0);
}

#[test]
fn a_graph_runs_its_functions_at_every_launch() {
    let _alone = crate::exclusive();
    start();
    let timed = function(load(), c"timed");
    let (stream, function) = (new_stream(), Function::new());
    let [first, beside, last] = [(); 3].map(|()| new_event());
    let graph = new_graph();
    let entry = mark(graph, first, &[]);
    let a = kernel(graph, timed, 20, &[entry]);
    let params = HostParams { function: Some(run), data: function.data() };
    // SAFETY: one dependency.
    let host = made(|out| unsafe {
        graph_nodes::cuGraphAddHostNode(Some(out), graph, &raw const a, 1, Some(&params))
    });
    assert_eq!(told(9, |out| graph_nodes::cuGraphNodeGetType(host, Some(out))), (0, 3));
    mark(graph, beside, &[a]);
    let b = kernel(graph, timed, 30, &[host]);
    mark(graph, last, &[b]);
    let exec = instantiate(graph);
    for _ in 0..2 {
        let begin = control::now_ns();
        assert_eq!(exec::cuGraphLaunch(exec, stream), 0);
        assert_eq!(event::cuEventSynchronize(beside), 0);
        assert_eq!(function.begun().now, begin + 20);
        control::advance_ns(500);
        assert_eq!([beside, last].map(|event| event::cuEventQuery(event)), [0, 600]);
        function.let_go();
        assert_eq!(stream::cuStreamSynchronize(stream), 0);
        assert_eq!(elapsed(first, last), (0, 0.00055));
    }
    // One that is captured is such a node.
    assert_eq!(capture::cuStreamBeginCapture_v2(stream, 1), 0);
    function.launch(stream);
    let graph = made(|out| capture::cuStreamEndCapture(stream, Some(out)));
    assert_eq!(exec::cuGraphLaunch(instantiate(graph), stream), 0);
    function.begun();
    assert_eq!(stream::cuStreamQuery(stream), 600);
    function.let_go();
    assert_eq!(context::cuCtxSynchronize(), 0);
}

#[test]
fn a_context_goes_once_its_function_returned_and_without_those_to_come() {
    let _alone = crate::exclusive();
    let primary = start();
    let timed = function(load(), c"timed");
    let (stream, event) = (new_stream(), new_event());
    let doomed: u64 = made(|out| context::cuCtxCreate_v2(Some(out), 0, 0));
    let (running, waiting) = (Function::new(), Function::new());
    let (own, theirs) = (new_stream(), new_event());
    running.launch(own);
    waiting.launch(own);
    running.begun();
    assert_eq!(event::cuEventRecord(theirs, own), 0);
    assert_eq!(stream::cuStreamWaitEvent(stream, theirs, 0), 0);
    assert_eq!(event::cuEventRecord(event, stream), 0);
    thread::scope(|scope| {
        let going = scope.spawn(|| context::cuCtxDestroy_v2(doomed));
        thread::sleep(Duration::from_millis(20));
        assert!(!going.is_finished());
        assert_eq!(event::cuEventQuery(event), 600);
        running.let_go();
        assert_eq!(going.join().expect("no panic"), 0);
    });
    assert_eq!(context::cuCtxSetCurrent(primary), 0);
    assert_eq!(event::cuEventSynchronize(event), 0, "nobody is left to wait for");
    // A reset does the same.
    let stays = Function::new();
    assert_eq!(launch(timed, stream, 5), 0);
    stays.launch(stream);
    control::reset();
    start();
    let stream = new_stream();
    let next = Function::new();
    next.let_go();
    next.launch(stream);
    assert_eq!(stream::cuStreamSynchronize(stream), 0);
    next.begun();
    assert_eq!([&waiting, &stays].map(|function| function.seen.try_recv().is_ok()), [false; 2]);
}

#[test]
fn a_function_is_not_called_in_a_context_that_met_an_error() {
    let _alone = crate::exclusive();
    let context = start();
    let timed = function(load(), c"timed");
    let (stream, function, event) = (new_stream(), Function::new(), new_event());
    assert_eq!(launch(timed, stream, 5), 0);
    function.launch(stream);
    assert_eq!(event::cuEventRecord(event, stream), 0);
    assert_eq!(control::set_sticky(context, Status::ERROR_ILLEGAL_ADDRESS), 1);
    assert_eq!(launches::cuLaunchHostFunc(stream, Some(run), function.data()), 700);
    control::advance_ns(5);
    // The second version tells no sticky error.
    let read = |out: &mut _| event::cuEventElapsedTime_v2(Some(out), event, event);
    while told(0.0, read).0 == 600 {
        thread::yield_now();
    }
    assert_eq!(told(1.0, read), (0, 0.0));
    assert!(function.seen.try_recv().is_err());
}

#[test]
fn in_real_time_a_function_begins_by_itself() {
    let _alone = crate::exclusive();
    start();
    let timed = function(load(), c"timed");
    let (stream, last, function) = (new_stream(), new_event(), Function::new());
    control::set_real_time(true);
    let begin = control::now_ns();
    assert_eq!(launch(timed, stream, 3_000_000), 0);
    function.launch(stream);
    assert_eq!(launch(timed, stream, 1_000_000), 0);
    assert_eq!(event::cuEventRecord(last, stream), 0);
    assert!(function.begun().now >= begin + 3_000_000);
    thread::sleep(Duration::from_millis(5));
    assert_eq!(event::cuEventQuery(last), 600);
    let held = control::now_ns();
    function.let_go();
    assert_eq!(event::cuEventSynchronize(last), 0);
    assert!(control::now_ns() >= held);
    assert!(control::now_ns() >= begin + 3_000_000 + 5_000_000 + 1_000_000);
}
