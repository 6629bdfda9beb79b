// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring against a scripted event source: what it asks, in which order, and
//! what it makes of every answer.

mod batch;
mod beyond;
mod oldest;
mod scripted;
