// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which driver is used, with the simulator as a shared library.

use metrale_gpu_runtime::timing::{Driver, DriverError, Origin};
use std::path::PathBuf;

/// The folder of the simulated driver, which `cargo xtask test` makes.
fn simulator() -> Option<PathBuf> {
    let folder = std::env::var_os("METRALE_SIM_DIR").map(PathBuf::from);
    if folder.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "METRALE_SIM_DIR is not set; run `cargo xtask test`"
        );
        println!("skipped: METRALE_SIM_DIR is not set; run `cargo xtask test`");
    }
    folder
}

#[test]
fn a_driver_that_the_process_holds_is_the_one_used() {
    let Some(folder) = simulator() else { return };
    let path = folder.join("libcuda.so.1");
    // SAFETY: the simulator's library; its initialisers do nothing.
    let first = unsafe { Driver::open(&path) }.unwrap();
    assert_eq!(first.origin(), &Origin::Loaded(path.clone()));
    assert!(first.is_simulated());
    let second = Driver::system().unwrap();
    assert_eq!(second.origin(), &Origin::Held(path));
    assert_eq!(
        second.api().event_query as usize,
        first.api().event_query as usize,
        "one library, not two"
    );
    assert!(
        matches!(first.device_count(), Err(DriverError::NoDevice { .. })),
        "cuInit was not called"
    );
}
