// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scripts over the simulator as a shared library, found by name as a real
//! driver's functions are.
#![cfg(target_os = "linux")]

use std::ffi::c_void;

use libloading::Library;
use metrale_gpu_sim::{child, scripts};

#[test]
fn the_library_answers_as_the_scripts_say() {
    // SAFETY: the simulator's library runs nothing when it is opened.
    let library = unsafe { Library::new(child::library_folder().join("libcuda.so.1")) };
    let library = library.expect("libcuda.so.1");
    let source = |name: &str| {
        // SAFETY: only the address is taken.
        let found = unsafe { library.get::<*const c_void>(name.as_bytes()) };
        // SAFETY: the library stays open as long as the address is used.
        let address = unsafe { found.ok()?.try_as_raw_ptr() };
        address.map(|address| address.cast_const())
    };
    assert!(source("sim_version").is_some(), "not the simulator");
    assert_eq!(source("cuNoSuchThing"), None);
    // SAFETY: `sim_reset` has this type.
    let reset = unsafe { library.get::<unsafe extern "C" fn()>(b"sim_reset") };
    let reset = reset.expect("sim_reset");
    for script in scripts::all() {
        // SAFETY: it takes nothing.
        unsafe { reset() };
        // SAFETY: the simulator's functions, and nothing else uses it.
        let outcome = unsafe { script.run(&source) };
        assert_eq!(outcome, Ok(()), "{}", script.name);
    }
}
