// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures metrale on a GPU; `--help` says how, [`metrale_bench::gpu`] what.

fn main() -> std::process::ExitCode {
    metrale_bench::gpu::main(std::env::args_os().skip(1).collect())
}
