// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a reader of a replay must know about its trace.
//!
//! Invariant: every guess and every drop is said, with its count.

use super::Plan;
use super::join::Joined;
use super::overruns::TIMES;
use crate::report::time;
use crate::steps::Steps;
use crate::trace::Trace;

/// The notes on `plan`, of which the steps and overruns are known; `placed` works
/// have their step by their stamps.
pub(super) fn notes(
    trace: &Trace,
    steps: &Steps,
    joined: &Joined,
    plan: &Plan,
    placed: usize,
) -> Vec<String> {
    let mut notes = Vec::new();
    let all = steps.all();
    if all.is_empty() {
        notes.push(
            "no step recognised (vLLM's execute_…, SGLang's step[…], ProfilerStep#…): all work is \
             admit; name the annotation of a step with --step-pattern 'PREFIX' or 'PART*PART', with =prefill or =decode where it is known"
                .to_owned(),
        );
    }
    let uncounted = all.iter().filter(|s| !s.what.states_tokens).count();
    if uncounted > 0 {
        notes.push(format!(
            "{uncounted} of {} steps state no token count: taken as decode",
            all.len()
        ));
    }
    let idle = all.len() - plan.steps.len();
    if idle > 0 {
        notes.push(format!("{idle} steps launched no GPU work: not replayed"));
    }
    if let Some(longest) = plan.overruns.iter().map(|overrun| overrun.duration_ns).max() {
        let records = match plan.overruns.len() {
            1 => "1 record runs".to_owned(),
            n => format!("{n} records run"),
        };
        notes.push(format!(
            "{records} on after the next one on the stream began, for over {TIMES} times the \
             length of those around: rows marked (?) are not to be believed; the longest is of {}",
            time(longest)
        ));
    }
    if placed > 0 {
        notes.push(format!(
            "{placed} pieces of GPU work have no correlation id: in the step around them on the \
             device"
        ));
    }
    let unlaunched = joined.calls.iter().filter(|c| c.is_none()).count() - placed;
    if unlaunched > 0 {
        notes.push(format!("{unlaunched} pieces of GPU work have no launch record: admit"));
    }
    if joined.shared > 0 {
        notes.push(format!(
            "{} launches have a correlation id that several processes use: joined by device",
            joined.shared
        ));
    }
    if trace.drops.total() > 0 {
        notes.push(format!(
            "{} records dropped: {}",
            trace.drops.total(),
            trace.drops.reasons().join(", ")
        ));
    }
    if trace.drops.read_over > 0 {
        notes.push(format!(
            "{} values that are not JSON, or names that are no strings: not used, read over",
            trace.drops.read_over
        ));
    }
    if trace.drops.rounded > 0 {
        notes.push(format!("{} times had digits below 1 ns: rounded", trace.drops.rounded));
    }
    notes
}
