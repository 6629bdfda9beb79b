// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which steps are armed, or which launches are sampled.
//!
//! A fixed stride locks onto schedules that repeat: with every 64th step armed
//! and every 8th step of one kind, the stride sees only that kind, or never.
//! So one step in each block of N is armed at a place that a hash chooses.
//!
//! An armed step carries the cost of all its launches: 2.8 ms for 555 of them.
//! Where a server minds that in its 99th percentile, one launch in each block
//! of N is timed instead, whatever step it is in.

use serde::{Deserialize, Serialize};

/// How what is timed in each block of N is chosen.
///
/// ```
/// use metrale_telemetry::Sampling;
///
/// let armed = (0..6400).filter(|&step| Sampling::Hashed.arms(step, 64, 0));
/// assert_eq!(armed.count(), 100);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Sampling {
    /// One step of each block of N consecutive steps, by a hash of seed and
    /// block.
    #[default]
    Hashed,
    /// The first step of each block: a fixed stride.
    EveryNth,
    /// One launch of each block of N consecutive launches, by the same hash. No
    /// step is armed. Each launch costs one read-modify-write more.
    Spread,
}

impl Sampling {
    /// The mode's name, as in a snapshot.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Sampling::Hashed => "hashed",
            Sampling::EveryNth => "every_nth",
            Sampling::Spread => "spread",
        }
    }

    /// Whether step `step` (from 0) is armed, where one in `every` is.
    #[must_use]
    pub fn arms(self, step: u64, every: u64, seed: u64) -> bool {
        match self {
            Sampling::Hashed => is_chosen(step, every, seed),
            Sampling::EveryNth => step.is_multiple_of(every.max(1)),
            Sampling::Spread => false,
        }
    }

    /// Whether launch `launch` (from 0, of all steps) is timed by itself, where
    /// one in `every` is.
    #[must_use]
    pub fn samples(self, launch: u64, every: u64, seed: u64) -> bool {
        self == Sampling::Spread && is_chosen(launch, every, seed)
    }

    #[inline]
    pub(crate) const fn from_u8(value: u8) -> Self {
        match value {
            1 => Sampling::EveryNth,
            2 => Sampling::Spread,
            _ => Sampling::Hashed,
        }
    }
}

/// Whether the hash of its block chooses `number`.
fn is_chosen(number: u64, every: u64, seed: u64) -> bool {
    let every = every.max(1);
    // The high half of a product maps a hash onto 0..every without the bias
    // and the cost of a remainder.
    let hash = mix(seed ^ mix(number / every));
    let place = ((u128::from(hash) * u128::from(every)) >> 64) as u64;
    number % every == place
}

/// The finalizer of SplitMix64: every input bit changes half of the output's.
pub(crate) const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::Sampling;

    #[test]
    fn each_block_takes_exactly_one() {
        for sampling in [Sampling::Hashed, Sampling::EveryNth, Sampling::Spread] {
            let takes = |number, every| match sampling {
                Sampling::Spread => {
                    assert!(!sampling.arms(number, every, 42));
                    sampling.samples(number, every, 42)
                }
                _ => {
                    assert!(!sampling.samples(number, every, 42));
                    sampling.arms(number, every, 42)
                }
            };
            for every in [1, 2, 3, 64, 1000] {
                for block in 0..200u64 {
                    let numbers = block * every..(block + 1) * every;
                    let taken = numbers.filter(|&number| takes(number, every)).count();
                    assert_eq!(taken, 1, "{sampling:?}, block {block} of {every}");
                }
            }
        }
    }

    /// The share of a 1-in-P step, estimated from 1 in 64: worst relative error
    /// (root mean square over the phases) over all periods.
    fn worst_error(sampling: Sampling) -> f64 {
        let armed: Vec<u64> = (0..65_536).filter(|&step| sampling.arms(step, 64, 7)).collect();
        let error = |period: u64| {
            let squares: f64 = (0..24u64)
                .map(|n| {
                    let phase = n * period / 24;
                    let hits = armed.iter().filter(|&&step| step % period == phase).count();
                    (hits as f64 / armed.len() as f64 * period as f64 - 1.0).powi(2)
                })
                .sum();
            (squares / 24.0).sqrt()
        };
        (2..=200).map(error).fold(0.0, f64::max)
    }

    #[test]
    fn no_period_hides_from_the_hash() {
        assert!(worst_error(Sampling::Hashed) < 0.6);
        assert!(worst_error(Sampling::EveryNth) > 2.0, "a fixed stride is known to be blind");
    }
}
