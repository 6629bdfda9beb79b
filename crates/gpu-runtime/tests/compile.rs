// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the compiler says to a guard that is held across `.await`: it names the
//! way out.

use std::path::Path;
use std::process::Command;

const PROGRAM: &str = "tests/compile/held_across_await.rs";

#[test]
fn the_error_of_a_guard_across_await_names_the_owned_step() {
    // The library beside this test, as it was built last.
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let built = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let library = built
        .filter(|file| {
            let name = file.file_name();
            let name = name.to_string_lossy();
            name.starts_with("libmetrale_gpu_runtime-") && name.ends_with(".rlib")
        })
        .max_by_key(|file| file.metadata().unwrap().modified().unwrap())
        .expect("the library is built before its tests");
    let output = Command::new("rustc")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .args(["--edition=2024", "--emit=metadata", PROGRAM])
        .arg(format!("-Ldependency={}", folder.display()))
        .arg(format!("--extern=metrale_gpu_runtime={}", library.path().display()))
        .output()
        .expect("the compiler of this test");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    for words in [
        "future created by async block is not `Send`",
        "is not implemented for `*const timing::guards::UseStepOwnedAcrossAwait`",
        "has type `StepGuard<'_>` which is not `Send`",
    ] {
        assert!(told.contains(words), "{words}\n{told}");
    }
}
