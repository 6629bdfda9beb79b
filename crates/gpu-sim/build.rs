// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives the shared library the name a program that links the CUDA driver asks
//! for. The file itself keeps its own name in the target folder: cargo puts
//! that folder on the library path, where a `libcuda` would hide a real driver.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    }
}
