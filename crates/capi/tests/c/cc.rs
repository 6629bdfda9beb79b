// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs in C: compiled, and run over the simulated driver.

use metrale_gpu_sim::child::library_folder;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A file of this crate.
pub(crate) fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Where cargo put the library that this test was built with: beside it.
pub(crate) fn built() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    test.parent().expect("its folder").to_owned()
}

/// Whether that program runs here. Under `CI=true` it has to.
pub(crate) fn has(program: &str) -> bool {
    let has = Command::new(program).arg("--version").output().is_ok();
    if !has {
        let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
        assert!(!is_ci, "{program} is missing; `.ci/install` installs it");
        println!("skipped: what needs {program}, which is not installed");
    }
    has
}

/// The answer of a command that ends well.
pub(crate) fn told(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    let Output { status, stdout, stderr } = &output;
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

/// The compiler, as strict as it can be.
pub(crate) fn cc(program: &str, standard: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g", "-I"])
        .arg(file("include"))
        .arg("-I")
        .arg(file("tests/c/include"));
    command
}

/// How a program takes the library.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Link {
    Shared,
    Static,
}

/// A program and the folder that it is in.
pub(crate) struct Program {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Program {
    pub(crate) fn compile(source: &str, link: Link) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        let mut cc = cc("cc", "-std=c11");
        cc.arg(file(source)).arg("-o").arg(&path);
        match link {
            Link::Shared => cc.arg("-L").arg(built()).arg("-lmetrale"),
            Link::Static => cc.arg(built().join("libmetrale.a")).args(["-lm", "-ldl"]),
        };
        told(cc.arg("-L").arg(library_folder()).args(["-lcuda", "-pthread"]));
        Self { path, _folder: folder }
    }

    fn run(&self, mut command: Command) -> String {
        let folders = std::env::join_paths([built(), library_folder()]).expect("paths");
        told(command.env("LD_LIBRARY_PATH", folders))
    }

    pub(crate) fn output(&self) -> String {
        self.run(Command::new(&self.path))
    }

    /// The same, where every access to memory is looked at and none may leak.
    pub(crate) fn checked_output(&self) -> String {
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--quiet", "--error-exitcode=9", "--leak-check=full"])
            .arg("--errors-for-leak-kinds=definite,possible")
            .arg("--show-leak-kinds=definite,possible")
            .arg(&self.path);
        self.run(valgrind)
    }
}
