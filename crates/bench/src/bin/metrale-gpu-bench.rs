// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures metrale on a GPU; `--help` says how, [`metrale_bench::gpu`] what.

fn main() -> std::process::ExitCode {
    // Who reads no further ends it, as any program in a pipe.
    sigpipe::reset();
    metrale_bench::gpu::main()
}
