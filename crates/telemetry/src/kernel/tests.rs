// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring against a scripted event source: what it asks, in which order, and
//! what it makes of every answer.

mod batch;
mod capacity;
mod gaps;
mod lifecycle;
mod oldest;
mod scripted;
mod streams;
mod tokens;
