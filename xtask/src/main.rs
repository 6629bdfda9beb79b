// SPDX-License-Identifier: MIT OR Apache-2.0
//! The workspace's tasks: `cargo xtask <task>`; `--help` lists them.
//!
//! Exit codes: 0 done, 1 a task failed, 2 the command line was wrong. `demo`,
//! `gpu-bench` and `differential` become their binaries, whose exit codes are theirs.

mod api;
mod bench;
mod cargo;
mod ci;
mod demo;
mod differential;
mod error;
mod flags;
mod gpu_bench;
mod hta;
mod loom;
mod mistakes;
mod nvtx;
mod outside;
mod program;
mod python;
mod sim;
mod source;
mod test;
mod tidy;
mod traces;

use error::Result;
use flags::{XtaskCmd, parse};

fn main() {
    // Who reads no further ends it, as any program in a pipe.
    sigpipe::reset();
    let cmd = match parse(std::env::args_os().skip(1).collect()) {
        Ok(cmd) => cmd,
        Err(err) if err.is_help() => err.exit(),
        Err(err) => {
            eprintln!("xtask: {err} (`cargo xtask --help` lists the tasks)");
            std::process::exit(2);
        }
    };
    if let Err(err) = run(cmd) {
        eprintln!("xtask: {err}");
        std::process::exit(1);
    }
}

fn run(cmd: XtaskCmd) -> Result<()> {
    match cmd {
        XtaskCmd::Sim(_) => {
            println!("{}", sim::build()?.display());
            Ok(())
        }
        XtaskCmd::Demo(flags) => Err(demo::exec(&flags.args)),
        XtaskCmd::Test(flags) => test::run(&flags.args),
        XtaskCmd::Loom(flags) if flags.page => loom::write_page(),
        XtaskCmd::Loom(flags) if flags.weaken => mistakes::weaken(&flags.args),
        XtaskCmd::Loom(flags) => loom::run(&flags.args),
        XtaskCmd::Differential(flags) if flags.mistakes => mistakes::of_twins(),
        XtaskCmd::Differential(flags) => Err(differential::exec(&flags.args)),
        XtaskCmd::Tidy(_) => tidy::run(),
        XtaskCmd::Api(flags) => api::run(flags.write),
        XtaskCmd::Python(flags) => python::run(&flags.args),
        XtaskCmd::Outside(_) => outside::run(),
        XtaskCmd::Hta(_) => hta::run(),
        XtaskCmd::Bench(flags) => bench::run(&flags),
        XtaskCmd::GpuBench(flags) => gpu_bench::run(&flags),
        XtaskCmd::Ci(_) => ci::run(),
    }
}
