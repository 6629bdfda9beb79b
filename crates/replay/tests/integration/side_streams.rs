// SPDX-License-Identifier: MIT OR Apache-2.0
//! A launch is of the step and the lane of its launch record, wherever the GPU
//! ran it and whatever began before.

use crate::common::planned;
use crate::common::program::{fact, replay_events, rows};
use crate::common::record::{DECODE, PREFILL, kernel, launch, overlapping_steps, read, step};
use metrale_replay::plan::{Op, Plan, Timing, What};
use metrale_replay::steps::Lane;

/// The host runs ahead: the decode step's side stream starts inside the prefill
/// step's time on the GPU, and 40 µs ahead of its own lane stream.
fn ahead() -> Vec<String> {
    vec![
        launch(1, 5),
        step(PREFILL, 10, 20),
        launch(2, 12),
        launch(3, 14),
        step(DECODE, 40, 20),
        launch(4, 42),
        launch(5, 44),
        kernel("claim", 7, 1, 50, 10),
        kernel("prefill", 7, 2, 100, 100),
        kernel("prefill", 7, 3, 200, 50),
        kernel("side", 20, 4, 210, 30),
        kernel("decode", 7, 5, 250, 60),
    ]
}

/// Name, step and lane of each launch in host order.
fn launches(plan: &Plan) -> Vec<(&str, Option<u32>, Lane)> {
    let of = |op: &Op| match op.what {
        What::Kernel { kernel, .. } => {
            let name = plan.kernels[kernel as usize].as_str();
            Some((name, op.step, plan.lane(op.step)))
        }
        _ => None,
    };
    plan.ops.iter().filter_map(of).collect()
}

#[test]
fn a_side_stream_ahead_of_its_lane() {
    for timing in [Timing::Ideal, Timing::Honest] {
        let plan = planned(&read(&ahead()), timing);
        assert_eq!(
            launches(&plan),
            [
                ("claim", None, Lane::Admit),
                ("prefill", Some(0), Lane::Prefill),
                ("prefill", Some(0), Lane::Prefill),
                ("side", Some(1), Lane::Decode),
                ("decode", Some(1), Lane::Decode),
            ],
            "{timing:?}"
        );
    }
}

/// Begins and ends of steps with the launches between them: a step is open at
/// each of its launches and marks.
#[test]
fn a_step_is_open_until_its_last_launch() {
    let plan = planned(&read(&overlapping_steps()), Timing::Ideal);
    let script: Vec<(&str, Option<u32>)> = (plan.ops.iter())
        .map(|op| {
            let word = match op.what {
                What::StepBegin { .. } => "step",
                What::StepEnd => "step end",
                What::LaneBegin { .. } => "lane",
                What::LaneEnd { .. } => "lane end",
                _ => "launch",
            };
            (word, op.step)
        })
        .collect();
    let (first, second) = (Some(0), Some(1));
    assert_eq!(
        script,
        [
            ("step", first),
            ("lane", first),
            ("launch", first),
            ("lane end", first),
            ("step", second),
            ("lane", second),
            ("launch", second),
            ("launch", first),
            ("launch", second),
            ("lane end", second),
            ("step end", first),
            ("step end", second),
        ]
    );
}

/// Kernel, lane and total of the page's rows, by name.
fn told(page: &str) -> Vec<[&str; 3]> {
    let rows = rows(page);
    let mut told: Vec<_> = rows.iter().map(|row| [row[0], row[1], row[4]]).collect();
    told.sort_unstable();
    told
}

#[test]
fn the_page_has_every_launch_in_its_lane() {
    let page = |events: &[String]| replay_events(events, &["--every", "1", "--stamps", "ideal"]).1;
    let ahead = page(&ahead());
    assert_eq!(
        told(&ahead),
        [
            ["claim", "admit", "10.00"],
            ["decode", "decode", "60.00"],
            ["prefill", "prefill", "150.0"],
            ["side", "decode", "30.00"],
        ]
    );
    // Work of a side stream outside its lane's time makes no lane busier.
    assert!(fact(&ahead, "busy").starts_with("100.0 %"), "{ahead}");
    assert_eq!(
        told(&page(&overlapping_steps())),
        [
            ["decode", "decode", "60.00"],
            ["prefill", "prefill", "100.0"],
            ["side", "prefill", "5.00"],
        ]
    );
}
