// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.

xflags::xflags! {
    /// Runs random sequences of an application's calls on the simulated driver,
    /// with and without the recorder, and compares.
    cmd metrale-differential {
        /// How many sequences; 1000 unless given.
        optional --sequences number: u32
        /// What they are drawn from; 0 unless given.
        optional --seed number: u64
    }
}
