// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines without a GPU, stubs, older drivers, forked children.

use std::ptr;

use super::{made, new_event, new_stream, start, told};
use crate::abi::{capture, context, device, event, lookup};
use crate::control;

#[test]
fn a_machine_without_a_device() {
    let _alone = crate::exclusive();
    control::set_device_count(0);
    let mode = |mode: u32| {
        let mut mode = mode;
        (capture::cuThreadExchangeStreamCaptureMode(Some(&mut mode)), mode)
    };
    assert_eq!(mode(2), (3, 2), "before cuInit the mode is left alone");
    assert_eq!(device::cuInit(0), 100);
    let count = |out: &mut _| device::cuDeviceGetCount(Some(out));
    assert_eq!(told(7, count), (3, 7));
    assert_eq!(mode(2), (0, 0), "after a failed cuInit it works");
    assert_eq!(mode(0), (0, 2));
    assert_eq!(event::cuEventQuery(0), 400);
    let version = |out: &mut _| device::cuDriverGetVersion(Some(out));
    assert_eq!(told(0, version).0, 0);
    control::set_device_count(2);
    assert_eq!(device::cuInit(0), 0, "a device came");
    assert_eq!(told(0, count), (0, 2));
}

/// The first version tells the whole GPU's UUID, the second one the instance's.
#[test]
fn a_mig_instance_has_a_uuid_of_its_own() {
    let _alone = crate::exclusive();
    start();
    let whole = made(|out| device::cuDeviceGetUuid(Some(out), 0));
    let second = || made(|out| device::cuDeviceGetUuid_v2(Some(out), 0));
    assert_eq!(second(), whole);
    control::set_mig(true);
    assert_ne!(second(), whole);
    assert_eq!(made(|out| device::cuDeviceGetUuid(Some(out), 0)), whole);
    control::set_mig(false);
    assert_eq!(second(), whole);
}

#[test]
fn a_stub_answers_34_to_everything() {
    let _alone = crate::exclusive();
    control::set_stub(true);
    assert_eq!(device::cuInit(0), 34);
    assert_eq!(event::cuEventQuery(0), 34);
    let version = |out: &mut _| device::cuDriverGetVersion(Some(out));
    assert_eq!(told(0, version), (34, 0));
}

#[test]
fn older_drivers_lack_what_came_later() {
    let _alone = crate::exclusive();
    // The CUDA version of a driver, what it exports and what came later.
    let rows: [(u32, &[&str], &[&str]); 5] = [
        (11_000, &["cuGraphClone", "cuStreamIsCapturing"], &["cuGraphAddEventRecordNode"]),
        (11_010, &["cuGraphAddEventRecordNode"], &["cuGraphInstantiateWithFlags"]),
        (
            11_040,
            &[
                "cuThreadExchangeStreamCaptureMode",
                "cuEventRecordWithFlags",
                "cuStreamGetCaptureInfo_v2",
                "cuFuncGetModule",
                "cuGetProcAddress",
                "cuGraphInstantiateWithFlags",
            ],
            &["cuGetProcAddress_v2", "cuStreamGetId", "cuCtxGetId", "cuLaunchKernelEx"],
        ),
        (12_000, &["cuGraphKernelNodeGetParams_v2"], &["cuGraphGetEdges_v2", "cuFuncGetName"]),
        (
            12_040,
            &[
                "cuGetProcAddress_v2",
                "cuStreamGetId",
                "cuCtxGetId",
                "cuLaunchKernelEx",
                "cuFuncGetName",
                "cuModuleEnumerateFunctions",
                "cuStreamGetCaptureInfo_v3",
                "cuGraphRemoveDependencies_v2",
            ],
            &["cuEventElapsedTime_v2", "cuStreamGetDevice"],
        ),
    ];
    for (version, has, lacks) in rows {
        for (name, is_there) in
            has.iter().map(|name| (*name, true)).chain(lacks.iter().map(|name| (*name, false)))
        {
            control::hide_newer_than(version);
            assert_eq!(crate::symbol(name).is_some(), is_there, "{name} in {version}");
            control::hide_newer_than(u32::MAX);
            assert!(crate::symbol(name).is_some(), "{name}");
            control::hide_symbol(name).expect("a driver function");
            assert!(crate::symbol(name).is_none(), "{name} hidden");
        }
    }
    assert!(crate::symbol("sim_version").is_some());
    assert!(crate::symbol("cuArray3DCreate_v2").is_none());
    assert_eq!(
        control::hide_symbol("cuEventDestroy"),
        Err(control::UnknownCall("cuEventDestroy".to_owned()))
    );
}

#[test]
fn entry_points_by_base_name_and_version() {
    let _alone = crate::exclusive();
    let find = |name: &std::ffi::CStr, version, flags| {
        let mut result = std::mem::MaybeUninit::new(9);
        let (status, address) = told(ptr::dangling(), |out| {
            let result = Some(&mut result);
            // SAFETY: a C string.
            unsafe { lookup::cuGetProcAddress_v2(name.as_ptr(), Some(out), version, flags, result) }
        });
        assert_eq!(status, 0);
        // SAFETY: it was initialised before the call.
        (address, unsafe { result.assume_init() })
    };
    let at = |name: &str| crate::symbol(name).expect("an export");
    assert_eq!(find(c"cuEventElapsedTime", 12_000, 0), (at("cuEventElapsedTime"), 0));
    assert_eq!(find(c"cuEventElapsedTime", 13_000, 0), (at("cuEventElapsedTime_v2"), 0));
    assert_eq!(find(c"cuEventElapsedTime", 99_000, 0), (at("cuEventElapsedTime_v2"), 0));
    assert_eq!(find(c"cuStreamGetCaptureInfo", 11_080, 0), (at("cuStreamGetCaptureInfo_v2"), 0));
    assert_eq!(find(c"cuEventRecord", 12_000, 2), (at("cuEventRecord_ptsz"), 0));
    assert_eq!(find(c"cuEventQuery", 12_000, 2), (at("cuEventQuery"), 0));
    assert_eq!(find(c"cuEventElapsedTime_v2", 13_000, 0), (ptr::null(), 1));
    assert_eq!(find(c"cuNoSuchThing", 13_000, 0), (ptr::null(), 1));
    assert_eq!(find(c"cuStreamGetId", 11_040, 0), (ptr::null(), 2));
    control::hide_newer_than(12_040);
    assert_eq!(find(c"cuEventElapsedTime", 13_000, 0), (at("cuEventElapsedTime"), 0));
    control::set_driver_version(12_040);
    let version = |out: &mut _| device::cuDriverGetVersion(Some(out));
    assert_eq!(told(0, version), (0, 12_040));
}

#[test]
fn the_current_context_goes_with_the_thread() {
    let _alone = crate::exclusive();
    let primary = start();
    let current = || made(|out| context::cuCtxGetCurrent(Some(out)));
    let other: u64 = made(|out| context::cuCtxCreate_v2(Some(out), 0, 0));
    assert_eq!(current(), other, "made current");
    assert_eq!(made(|out| context::cuCtxPopCurrent_v2(Some(out))), other);
    assert_eq!(current(), primary);
    std::thread::scope(|scope| {
        let seen = scope.spawn(current).join().expect("no panic");
        assert_eq!(seen, 0, "none is current on a new thread, and no error");
    });
    assert_eq!(context::cuCtxDestroy_v2(other), 0);
    assert_eq!(context::cuCtxSetCurrent(other), 201);
    let id = |context| made(|out| context::cuCtxGetId(context, Some(out)));
    let first: u64 = id(primary);
    assert_eq!(context::cuDevicePrimaryCtxRelease_v2(0), 0);
    let event = |out: &mut _| event::cuEventCreate(Some(out), 0);
    assert_eq!(told(0, event).0, 709, "current but destroyed");
    assert_eq!(start(), primary, "retained again: the same handle,");
    assert!(id(primary) > first, "another context");
}

/// A child answers with its exit code; it must not touch the test's locks.
#[cfg(unix)]
#[test]
fn a_forked_child_is_refused() {
    let _alone = crate::exclusive();
    start();
    let (event, stream) = (new_event(), new_stream());
    // SAFETY: the child only calls the simulator, which takes no lock there,
    // and leaves without running anything else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_refused = device::cuInit(0) == 3
            && event::cuEventQuery(event) == 3
            && event::cuEventRecord(event, stream) == 3;
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if is_refused { 0 } else { 1 }) };
    }
    assert!(child > 0, "fork");
    let mut status = -1;
    // SAFETY: our own child, and a good pointer.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0));
    assert_eq!(event::cuEventQuery(event), 0, "the parent goes on");
}
