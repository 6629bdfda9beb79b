// SPDX-License-Identifier: MIT OR Apache-2.0
//! The models. Each is small enough to be exhausted within its bound, takes
//! slots more often than there are, and ends at rest with the ledger closed.
//! What each proves needed is in `docs/memory-ordering.md`.

mod cells;
mod failures;
mod folds;
mod gaps;
mod harvesters;
mod recorders;
mod records;
mod steps;
mod table;
mod tail;
mod tokens;
