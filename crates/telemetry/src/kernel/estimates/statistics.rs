// SPDX-License-Identifier: MIT OR Apache-2.0
//! From sums over sampled steps to totals, shares and their standard errors.
//!
//! Where steps are armed, a kernel's share of its lane is a ratio of two sums
//! over the same steps, and its total that share of the lane's whole time,
//! which is known. Its error is that of a ratio estimator: the spread of
//! x - share * y over armed steps, for the kernel's time x and the lane's y. So
//! a kernel that grows with its lane is known well from few steps.
//!
//! Chance is not all. A step that lost a span may have had any share of its
//! lane's time, and a launch that was left out may be of any row: what that can
//! come to goes into the error, by its square. So two errors still hold the
//! truth, and one of 0 says that nothing was lost.
//!
//! Under `Spread` each timed launch stands for N. The spread of the sampled
//! time over all steps then holds what chance did, and what the load did too:
//! the error is rather too large.

use super::{KernelSums, Lane, LaneSums};
use serde::{Deserialize, Serialize};

/// Below so many steps no error is claimed: what was not seen is as likely as
/// what was.
pub const ENOUGH_STEPS: u64 = 30;

/// A total that was measured on some steps only.
///
/// ```
/// # fn read(snapshot: &metrale_telemetry::Snapshot) {
/// for kernel in &snapshot.kernels {
///     for lane in &kernel.lanes {
///         let percent = 100.0 * lane.estimate.share;
///         match lane.estimate.error {
///             Some(error) => println!("{percent:.1} % ± {:.1}", 100.0 * error.share),
///             None => println!("{percent:.1} %, and nobody knows how exact"),
///         }
///     }
/// }
/// # }
/// # read(&metrale_telemetry::Telemetry::new().snapshot());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Estimate {
    /// Sampled steps in which it was seen.
    pub steps: u64,
    /// GPU nanoseconds on all steps, timed or not.
    #[serde(with = "finite")]
    pub total_ns: f64,
    /// The total as a share of the lane's GPU time. Overlap can bring it over 1.
    #[serde(with = "finite")]
    pub share: f64,
    /// How far off the two may be; `None`: that is not known. Too few steps
    /// ([`ENOUGH_STEPS`]), spans of the lane without a time, or a merge with a
    /// process that has no error.
    pub error: Option<StandardError>,
}

/// One standard error: the truth is within two of them 19 times in 20.
///
/// ```
/// use metrale_telemetry::kernel::{Estimate, StandardError};
///
/// let mut error = StandardError::default();
/// (error.total_ns, error.share) = (2e6, 0.02);
/// let mut gemm = Estimate::default();
/// (gemm.steps, gemm.total_ns, gemm.share, gemm.error) = (64, 3e7, 0.3, Some(error));
/// let [least, most] = [-2.0, 2.0].map(|errors| gemm.share + errors * error.share);
/// assert!((least - 0.26).abs() < 1e-9 && (most - 0.34).abs() < 1e-9);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StandardError {
    /// Of the total, nanoseconds.
    #[serde(with = "finite")]
    pub total_ns: f64,
    /// Of the share.
    #[serde(with = "finite")]
    pub share: f64,
}

/// Floats that JSON can hold: it has no other, and would say null.
mod finite {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
    use std::fmt::Display;

    fn refuse(value: f64) -> impl Display {
        format!("an estimate of {value}: a snapshot holds finite numbers only")
    }

    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() {
            value.serialize(to)
        } else {
            Err(ser::Error::custom(refuse(*value)))
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        let value = f64::deserialize(from)?;
        if value.is_finite() { Ok(value) } else { Err(de::Error::custom(refuse(value))) }
    }
}

/// A part's share of a whole, over the same values of both, and its standard
/// error. `None` before there was a value.
pub(crate) fn ratio(part: &KernelSums, whole: &LaneSums) -> Option<(f64, f64)> {
    if whole.ns == 0 {
        return None;
    }
    let share = part.sum_ns as f64 / whole.ns as f64;
    let squares =
        (share * share).mul_add(whole.squares, (-2.0 * share).mul_add(part.products, part.squares));
    Some((share, deviation(squares, whole.steps) / whole.ns as f64))
}

/// Of a kernel in a lane, from sampled steps, over which `sampled` sums the
/// lane. `None` before there was one.
pub(super) fn of_armed(kernel: &KernelSums, sampled: &LaneSums, lane: &Lane) -> Option<Estimate> {
    let (sampled_ns, total_ns) = (sampled.ns as f64, lane.total_ns as f64);
    let (share, spread) = ratio(kernel, sampled)?;
    // Of steps that were all timed nothing is left to chance.
    let untimed = 1.0 - sampled.steps as f64 / lane.steps.max(sampled.steps) as f64;
    let chance = spread * untimed.sqrt();
    let lost_ns = lane.incomplete_ns as f64;
    let lost = lost_ns / (sampled_ns + lost_ns) * share.max(1.0 - share);
    let left_out = lane.left_out_ns as f64 / sampled_ns;
    let is_bounded = lane.lost_spans() == 0 && lane.unbounded == 0;
    let error = is_bounded.then_some(chance.hypot(lost + left_out));
    Some(Estimate::new(kernel.steps, share, error, total_ns))
}

/// Of a kernel in a lane, where one launch in `every` was timed. `None` before
/// the lane was seen.
pub(super) fn of_spread(kernel: &KernelSums, lane: &Lane, every: u64) -> Option<Estimate> {
    let total_ns = lane.total_ns as f64;
    if lane.total_ns == 0 {
        return None;
    }
    let (sum, every) = (kernel.sum_ns as f64, every as f64);
    let squares = kernel.squares - sum * sum / lane.steps as f64;
    // Of launches that were all timed nothing is left to chance.
    let untimed = 1.0 - 1.0 / every;
    let error = every * deviation(squares, lane.steps) * untimed.sqrt() / total_ns;
    let share = every * sum / total_ns;
    // A launch that was lost is missing N times over, and no spread tells that.
    let lost = lane.incomplete + lane.left_out + lane.lost_spans();
    let error = (lost == 0).then_some(error);
    Some(Estimate::new(kernel.steps, share, error, total_ns))
}

/// The standard deviation of a sum of `n` values whose squared distances from
/// their mean sum up to `squares`.
fn deviation(squares: f64, n: u64) -> f64 {
    let n = n as f64;
    // Rounding may leave a little less than nothing.
    (squares.max(0.0) * n / (n - 1.0).max(1.0)).sqrt()
}

impl Estimate {
    fn new(steps: u64, share: f64, error: Option<f64>, lane_ns: f64) -> Self {
        Self {
            steps,
            total_ns: share * lane_ns,
            share,
            error: error
                .filter(|_| steps >= ENOUGH_STEPS)
                .map(|error| StandardError { total_ns: error * lane_ns, share: error }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Estimate, KernelSums, Lane, LaneSums, of_spread};

    fn lane(times: &[f64], steps: u64) -> Lane {
        Lane {
            total_ns: 1_000_000,
            steps,
            sampled: LaneSums {
                steps: times.len() as u64,
                ns: times.iter().sum::<f64>() as u64,
                squares: times.iter().map(|y| y * y).sum(),
            },
            ..Lane::NONE
        }
    }

    fn of_armed(kernel: &KernelSums, lane: &Lane) -> Option<Estimate> {
        super::of_armed(kernel, &lane.sampled, lane)
    }

    fn kernel(times: &[f64], lane: &[f64]) -> KernelSums {
        KernelSums {
            steps: times.iter().filter(|x| **x > 0.0).count() as u64,
            sum_ns: times.iter().sum::<f64>() as u64,
            squares: times.iter().map(|x| x * x).sum(),
            products: times.iter().zip(lane).map(|(x, y)| x * y).sum(),
        }
    }

    /// Against the textbook's formula, term by term.
    #[test]
    fn the_error_is_that_of_a_ratio_estimator() {
        let y: Vec<f64> = (0..40).map(|n| f64::from(1000 + 37 * (n % 11))).collect();
        let x: Vec<f64> = (0..40).map(|n| f64::from(100 + 5 * (n % 7))).collect();
        let found = of_armed(&kernel(&x, &y), &lane(&y, 400)).unwrap();
        let (sum_x, sum_y): (f64, f64) = (x.iter().sum(), y.iter().sum());
        let ratio = sum_x / sum_y;
        let n = 40.0;
        let residual = x.iter().zip(&y).map(|(x, y)| (x - ratio * y).powi(2));
        let variance = residual.sum::<f64>() / (n - 1.0);
        let expected = ((1.0 - n / 400.0) * variance / n).sqrt() / (sum_y / n);
        let error = found.error.unwrap();
        assert!((found.share - ratio).abs() < 1e-12);
        assert!((error.share / expected - 1.0).abs() < 1e-9, "{error:?}");
        assert!((error.total_ns - expected * 1e6).abs() < 1e-3);
        assert!((found.total_ns - ratio * 1e6).abs() < 1e-6);
    }

    #[test]
    fn what_was_timed_on_every_step_has_no_error() {
        let y: Vec<f64> = (0..40).map(|n| f64::from(1000 + n)).collect();
        let found = of_armed(&kernel(&y, &y), &lane(&y, 40)).unwrap();
        assert_eq!(found.error.unwrap().share, 0.0);
        let found = of_spread(&kernel(&y, &y), &lane(&y, 40), 1).unwrap();
        assert_eq!(found.error.unwrap().share, 0.0);
    }

    #[test]
    fn a_kernel_that_grows_with_its_lane_is_known_well() {
        let y: Vec<f64> = (0..40).map(|n| f64::from(1000 * (1 + n % 5))).collect();
        let x: Vec<f64> = y.iter().map(|y| y / 4.0).collect();
        let error = of_armed(&kernel(&x, &y), &lane(&y, 4000)).unwrap().error;
        assert!(error.unwrap().share < 1e-6);
    }

    #[test]
    fn too_few_steps_claim_no_error() {
        let y = [1000.0; 40];
        for (seen, claims) in [(0, false), (29, false), (30, true)] {
            let x: Vec<f64> = (0..40).map(|n| if n < seen { 10.0 } else { 0.0 }).collect();
            let found = of_armed(&kernel(&x, &y), &lane(&y, 4000)).unwrap();
            assert_eq!((found.steps, found.error.is_some()), (seen as u64, claims));
        }
        let mut nothing = lane(&[], 0);
        nothing.total_ns = 0;
        assert_eq!(of_armed(&KernelSums::NONE, &nothing), None);
        assert_eq!(of_spread(&KernelSums::NONE, &nothing, 64), None);
    }

    #[test]
    fn under_spread_a_lost_launch_leaves_no_error_to_claim() {
        let x = [10.0; 40];
        let lane = lane(&[], 40);
        assert!(of_spread(&kernel(&x, &x), &lane, 8).unwrap().error.is_some());
        let lose: [fn(&mut Lane); 3] =
            [|lane| lane.incomplete = 1, |lane| lane.left_out = 1, |lane| lane.lost = 1];
        for lose in lose {
            let mut lane = lane;
            lose(&mut lane);
            assert_eq!(of_spread(&kernel(&x, &x), &lane, 8).unwrap().error, None);
        }
    }

    #[test]
    fn under_spread_each_sample_stands_for_n() {
        let x: Vec<f64> = (0..640).map(|n| if n % 16 == 0 { 100.0 } else { 0.0 }).collect();
        let mut lane = lane(&[], 640);
        lane.total_ns = 640_000;
        let found = of_spread(&kernel(&x, &x), &lane, 8).unwrap();
        assert_eq!(found.total_ns, 40.0 * 100.0 * 8.0);
        assert_eq!(found.share, 0.05);
        // 640 draws of 100 ns at 1 in 16: n p (1 - p), widened by n / (n - 1).
        let expected =
            8.0 * 100.0 * (640.0 / 16.0 * 15.0 / 16.0 * 640.0 / 639.0 * 7.0 / 8.0f64).sqrt();
        assert!((found.error.unwrap().total_ns / expected - 1.0).abs() < 1e-9);
    }
}
