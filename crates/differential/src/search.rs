// SPDX-License-Identifier: MIT OR Apache-2.0
//! The search: cases drawn at random from a seed, and the first that fails made small.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// Tries at making a failing case smaller.
const MAX_TRIES: u32 = 4_096;

/// Tries so many cases, all of which follow from the seed.
///
/// # Errors
/// Why the first that fails does, and that case as small as it gets.
pub(crate) fn search<S: Strategy>(
    seed: u64,
    cases: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), String>,
) -> Result<(), (String, S::Value)> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        failure_persistence: None,
        cases,
        max_shrink_iters: MAX_TRIES,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let tried = TestRunner::new_with_rng(config, rng)
        .run(strategy, |case| test(case).map_err(TestCaseError::fail));
    tried.map_err(|error| match error {
        TestError::Fail(why, case) => (why.to_string(), case),
        TestError::Abort(why) => panic!("no strategy rejects: {why}"),
    })
}
