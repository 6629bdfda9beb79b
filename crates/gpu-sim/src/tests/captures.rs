// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captures and graphs in detail: what a script cannot say.

use std::ptr;

use super::graphs::instantiate;
use super::{elapsed, function, launch, load, made, new_event, new_stream, start, told};
use crate::abi::{capture, event, exec, graph, memory, stream};
use crate::control;

fn begin(stream: u64) {
    assert_eq!(capture::cuStreamBeginCapture_v2(stream, 1), 0);
}

fn end(stream: u64) -> (u32, u64) {
    told(1, |out| capture::cuStreamEndCapture(stream, Some(out)))
}

#[test]
fn a_graph_launched_into_a_capture_becomes_part_of_it() {
    let _alone = crate::exclusive();
    start();
    let kernel = function(load(), c"timed");
    let stream = new_stream();
    begin(stream);
    assert_eq!(launch(kernel, stream, 10), 0);
    assert_eq!(launch(kernel, stream, 20), 0);
    let inner = instantiate(end(stream).1);
    begin(stream);
    assert_eq!(launch(kernel, stream, 1), 0);
    assert_eq!(exec::cuGraphLaunch(inner, stream), 0);
    assert_eq!(launch(kernel, stream, 3), 0);
    let (status, outer) = end(stream);
    assert_eq!(status, 0);
    let mut count = 9;
    // SAFETY: NULL asks for the number.
    let status = unsafe { graph::cuGraphGetNodes(outer, ptr::null_mut(), Some(&mut count)) };
    assert_eq!((status, count), (0, 4));
    assert_eq!(exec::cuGraphLaunch(instantiate(outer), stream), 0);
    assert_eq!(stream::cuStreamSynchronize(stream), 0);
    assert_eq!(control::now_ns(), 34);
}

#[test]
fn an_argument_is_read_when_it_is_captured() {
    let _alone = crate::exclusive();
    start();
    let kernel = function(load(), c"plain");
    let stream = new_stream();
    control::set_kernel_duration("plain", 70);
    begin(stream);
    assert_eq!(launch(kernel, stream, 5), 0);
    let exec = instantiate(end(stream).1);
    control::set_kernel_duration("plain", 9_000);
    assert_eq!(exec::cuGraphLaunch(exec, stream), 0);
    assert_eq!(stream::cuStreamSynchronize(stream), 0);
    assert_eq!(control::now_ns(), 70);
}

#[test]
fn an_external_wait_is_a_node_and_waits_at_every_launch() {
    let _alone = crate::exclusive();
    start();
    let kernel = function(load(), c"timed");
    let (main, side) = (new_stream(), new_stream());
    let event = new_event();
    assert_eq!(event::cuEventRecord(event, side), 0);
    begin(main);
    assert_eq!(stream::cuStreamWaitEvent(main, event, 1), 0);
    assert_eq!(launch(kernel, main, 1), 0);
    let (status, captured) = end(main);
    assert_eq!(status, 0);
    assert_eq!(launch(kernel, side, 500), 0);
    assert_eq!(event::cuEventRecord(event, side), 0);
    assert_eq!(exec::cuGraphLaunch(instantiate(captured), main), 0);
    assert_eq!(stream::cuStreamSynchronize(main), 0);
    assert_eq!(control::now_ns(), 501);
}

#[test]
fn a_capture_is_gone_with_the_stream_it_was_begun_on() {
    let _alone = crate::exclusive();
    start();
    let (main, side) = (new_stream(), new_stream());
    let event = new_event();
    begin(main);
    assert_eq!(event::cuEventRecord(event, main), 0);
    assert_eq!(stream::cuStreamWaitEvent(side, event, 0), 0);
    assert_eq!(stream::cuStreamDestroy_v2(main), 0);
    let capturing = |out: &mut _| capture::cuStreamIsCapturing(side, Some(out));
    assert_eq!(told(9, capturing), (0, 0), "set free");
    // Nothing is left that a wait could break.
    assert_eq!(crate::abi::context::cuCtxSynchronize(), 0);
    assert_eq!(control::stale_handle_uses(), 0);
}

#[test]
fn capture_info_lends_the_last_nodes() {
    let _alone = crate::exclusive();
    start();
    let kernel = function(load(), c"timed");
    let stream = new_stream();
    begin(stream);
    assert_eq!(launch(kernel, stream, 1), 0);
    assert_eq!(launch(kernel, stream, 1), 0);
    let mut id = std::mem::MaybeUninit::new(0);
    let mut graph = std::mem::MaybeUninit::new(0);
    let mut count = std::mem::MaybeUninit::new(0);
    let (lent, lent_status) = {
        let (status, lent) = told(ptr::null(), |deps| {
            let mut status = std::mem::MaybeUninit::new(0);
            capture::cuStreamGetCaptureInfo_v2(
                stream,
                Some(&mut status),
                Some(&mut id),
                Some(&mut graph),
                Some(deps),
                Some(&mut count),
            )
        });
        (lent, status)
    };
    assert_eq!(lent_status, 0);
    // SAFETY: it was initialised before the call.
    assert_eq!(unsafe { count.assume_init() }, 1);
    // SAFETY: one handle is lent until the stream's next call.
    let last: u64 = unsafe { lent.read() };
    let mut nodes = [0; 3];
    let mut room = 3;
    // SAFETY: it was initialised before the call.
    let graph = unsafe { graph.assume_init() };
    // SAFETY: room for three.
    let status = unsafe { graph::cuGraphGetNodes(graph, nodes.as_mut_ptr(), Some(&mut room)) };
    assert_eq!((status, room, nodes[1], nodes[2]), (0, 2, last, 0));

    let lossy = told(ptr::null(), |deps| {
        let mut status = std::mem::MaybeUninit::new(0);
        let status = Some(&mut status);
        capture::cuStreamGetCaptureInfo_v3(stream, status, None, None, Some(deps), None, None)
    });
    assert_eq!(lossy.0, 402, "dependencies without their edge data");
    assert_eq!(end(stream), (0, graph));
    // SAFETY: it was initialised before the call.
    let first_id = unsafe { id.assume_init() };
    begin(stream);
    let v1 = |out: &mut _| {
        let mut status = std::mem::MaybeUninit::new(0);
        capture::cuStreamGetCaptureInfo(stream, Some(&mut status), Some(out))
    };
    let (status, second_id) = told(0, v1);
    assert!(status == 0 && second_id > first_id, "ids are unique");
    assert_eq!(end(stream).0, 0);
}

#[test]
fn captured_copies_move_bytes_at_every_launch() {
    let _alone = crate::exclusive();
    start();
    let stream = new_stream();
    control::set_copy_duration(250);
    let device: u64 = made(|out| memory::cuMemAlloc_v2(Some(out), 8));
    let (status, host) = told(ptr::null_mut(), |out| memory::cuMemHostAlloc(Some(out), 8, 0));
    assert_eq!(status, 0);
    begin(stream);
    let mut back = [0_u8; 8];
    // SAFETY: eight bytes each, good until after the launches.
    let up = unsafe { memory::cuMemcpyHtoDAsync_v2(device, host.cast(), 8, stream) };
    assert_eq!(memory::cuMemsetD8Async(device, 9, 4, stream), 0);
    // SAFETY: as above.
    let down = unsafe { memory::cuMemcpyDtoHAsync_v2(back.as_mut_ptr().cast(), device, 8, stream) };
    assert_eq!((up, down), (0, 0));
    let exec = instantiate(end(stream).1);
    assert_eq!(back, [0; 8], "nothing moved yet");
    for value in [5, 6] {
        // SAFETY: eight bytes were allocated.
        unsafe { host.write_bytes(value, 8) };
        assert_eq!(exec::cuGraphLaunch(exec, stream), 0);
        assert_eq!(back, [9, 9, 9, 9, value, value, value, value]);
    }
    assert_eq!(stream::cuStreamSynchronize(stream), 0);
    assert_eq!(control::now_ns(), 2 * 3 * 250);
    assert_eq!(memory::cuMemFreeHost(host.cast()), 0);
    assert_eq!(memory::cuMemFreeHost(host.cast()), 1);
    assert_eq!(memory::cuMemFree_v2(device), 0);
    assert_eq!(exec::cuGraphLaunch(exec, stream), 1, "its memory is gone");
}

/// NVIDIA states neither; the simulator takes the stricter reading.
#[test]
fn reading_a_time_and_copying_in_step_are_unsafe_calls() {
    let _alone = crate::exclusive();
    start();
    let (main, apart) = (new_stream(), new_stream());
    let event = new_event();
    let device: u64 = made(|out| memory::cuMemAlloc_v2(Some(out), 8));
    assert_eq!(event::cuEventRecord(event, apart), 0);
    begin(main);
    assert_eq!(elapsed(event, event).0, 900);
    assert_eq!(end(main), (901, 0));
    begin(main);
    assert_eq!(memory::cuMemsetD8_v2(device, 1, 8), 900);
    assert_eq!(end(main), (901, 0));
    begin(main);
    let mut mode = 2;
    let exchange = |mode: &mut u32| capture::cuThreadExchangeStreamCaptureMode(Some(mode));
    assert_eq!(exchange(&mut mode), 0);
    assert_eq!(elapsed(event, event), (0, 0.0));
    assert_eq!(memory::cuMemsetD8_v2(device, 1, 8), 0);
    assert_eq!(end(main).0, 0);
    control::reset();
    start();
    mode = 1;
    assert_eq!((exchange(&mut mode), mode), (0, 0), "a reset clears the mode");
}
