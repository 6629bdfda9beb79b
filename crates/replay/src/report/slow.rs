// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of the slowest steps: which they were, and what was in them.

use metrale_telemetry::snapshot::{StepLane, StepSnapshot};

use super::text::Page;
use super::{Report, SlowStepRow, count, share, time};

/// Steps that are shown.
const TOP: usize = 5;

/// A row for each of the slowest steps, and a blank line; nothing where no step is
/// known. A step of which a lane's span is missing is marked, as it took more, and one
/// that ran a twin, as marks are in its time.
pub(super) fn steps(report: &Report, out: &mut Page) {
    let steps = &report.slowest_steps;
    if steps.is_empty() {
        return;
    }
    let row = |cells: [&str; 6]| {
        let [step, gpu, prompt, decode, requests, lane] = cells;
        format!("{step:<14}{gpu:>10}{prompt:>15}{decode:>15}{requests:>10}  {lane}")
    };
    let head = ["slowest steps", "GPU time", "prompt tokens", "decode tokens", "requests", "lane"];
    out.line(&row(head));
    for slow in steps.iter().take(TOP) {
        let step = &slow.step;
        let lost = if step.incomplete { " !" } else { "" };
        let twin = if step.marked { " twin" } else { "" };
        let of_shape = |of: fn(&StepSnapshot) -> Option<u32>| {
            of(step).map_or_else(|| "-".to_owned(), |n| count(n.into()))
        };
        out.line(&row([
            &format!("{}{lost}{twin}", count(step.number)),
            &time(step.gpu_ns),
            &of_shape(|step| Some(step.shape?.prompt_tokens)),
            &of_shape(|step| Some(step.shape?.decode_tokens)),
            &of_shape(|step| Some(step.shape?.requests)),
            &longest(report, slow),
        ]));
    }
    out.gap();
}

/// The lane that took the most of a step; with its share where others had some.
fn longest(report: &Report, SlowStepRow { device, step }: &SlowStepRow) -> String {
    let Some(lane) = step.lanes.iter().max_by_key(|lane: &&StepLane| lane.gpu_ns) else {
        return "-".to_owned();
    };
    let label = report.on(&lane.lane, *device);
    let part = share(lane.gpu_ns, step.gpu_ns);
    match part.strip_suffix(".0 %") {
        Some("100") => label,
        _ => format!("{label} {part}"),
    }
}
