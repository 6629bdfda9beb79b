// SPDX-License-Identifier: MIT OR Apache-2.0
//! What marks tell of a launch is in the timeline of its step.

use crate::rig::App;
use crate::twin_rig::{always, chain, recorder, replay, settle, settled_twin};
use metrale_gpu_runtime::timing::{Recorder, TwinsConfig};
use metrale_gpu_sim::control::graphs;
use metrale_telemetry::kernel::Timeline;

const MARK_NS: u64 = 1_000;

/// Each kernel of the only graph is there, one after the other, with its mark.
fn assert_parts(timeline: &Timeline, kernels: &[u64]) {
    let [launch] = &timeline.launches[..] else {
        panic!("{timeline:?}");
    };
    let took: Vec<u64> = timeline.parts.iter().map(|part| part.span.ns).collect();
    let expected: Vec<u64> = kernels.iter().map(|ns| ns + MARK_NS).collect();
    assert_eq!(took, expected);
    let mut at_ns = launch.start_ns;
    for part in &timeline.parts {
        assert_eq!((part.nodes, part.span.stream, part.span.lane), (1, launch.stream, launch.lane));
        assert!(part.span.func.is_some() && part.span.start_ns >= at_ns, "{timeline:?}");
        at_ns = part.span.start_ns + part.span.ns.cast_signed();
    }
    // The second mark of the double one may be the last.
    let rest_ns = launch.start_ns + launch.ns.cast_signed() - at_ns;
    assert!([0, MARK_NS.cast_signed()].contains(&rest_ns), "{rest_ns}");
}

fn last(recorder: &Recorder) -> Timeline {
    recorder.telemetry().timelines().pop().expect("a timeline")
}

#[test]
fn kernels_inside_a_graph_are_in_the_timeline_and_in_a_recording() {
    let app = App::new();
    graphs::set_mark_duration(MARK_NS);
    let recorder = recorder(&app, always());
    let kernels = [10_000, 20_000, 30_000, 40_000, 50_000];
    let twin = settled_twin(&recorder, chain(&app, &kernels), app.stream);
    recorder.telemetry().record_steps(3).expect("few");
    for _ in 0..3 {
        replay(&recorder, &twin, app.stream).expect("a launch");
        settle(&recorder);
        assert_parts(&last(&recorder), &kernels);
    }
    // Later ones do not take the place of what was recorded.
    for _ in 0..600 {
        replay(&recorder, &twin, app.stream).expect("a launch");
        settle(&recorder);
    }
    let recording = recorder.telemetry().recording().expect("asked for");
    assert!(recording.is_complete());
    for timeline in &recording.timelines {
        assert_parts(timeline, &kernels);
    }
}

#[test]
fn marks_that_are_read_after_the_step_was_folded_are_in_its_timeline_too() {
    let app = App::new();
    graphs::set_mark_duration(MARK_NS);
    let twins = TwinsConfig { marks: 1_000, resident: 1, ..always() };
    let recorder = recorder(&app, twins);
    let kernels = [2_000; 600];
    let twin = settled_twin(&recorder, chain(&app, &kernels), app.stream);
    replay(&recorder, &twin, app.stream).expect("a launch");
    metrale_gpu_sim::control::advance_ns(1_000_000_000);
    recorder.harvest();
    assert_eq!(last(&recorder).parts, []);
    for _ in 0..2 {
        recorder.harvest();
    }
    assert_parts(&last(&recorder), &kernels);
}
