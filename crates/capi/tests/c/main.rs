// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library from the other side: programs in C, compiled by the system's
//! compiler against the committed header, on the simulated driver.
#![cfg(target_os = "linux")]

mod cc;
mod header;
mod programs;
