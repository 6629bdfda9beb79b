// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps and lanes that change threads.

use super::rig::{App, func, stream};
use metrale_gpu_runtime::timing::{OwnedLane, OwnedStep, Recorder};
use metrale_gpu_sim::control;
use metrale_telemetry::Level;
use metrale_telemetry::kernel::{LANE_DECODE, Ledger};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

fn launch(app: &App, lane: &OwnedLane, ns: u64) {
    let launched = lane.launch(func(app.spin), || app.launch(app.spin, app.stream, ns).ok());
    assert_eq!(launched, Ok(()));
}

fn ledgers(recorder: &Recorder) -> Ledger {
    recorder.lane_ledger().plus(recorder.kernel_ledger())
}

/// Each of three threads launches in one lane; a fourth ends it, and the step.
#[test]
fn a_lane_goes_from_thread_to_thread() {
    let app = App::new();
    let recorder = Arc::new(app.recorder());
    let step = recorder.step_owned();
    assert!(step.is_armed() && step.number() == Some(0));
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    std::thread::scope(|scope| {
        for ns in [10_000, 20_000, 30_000] {
            let (app, lane) = (&app, &lane);
            scope.spawn(move || launch(app, lane, ns)).join().unwrap();
        }
    });
    let ended: (OwnedStep, OwnedLane) = (step, lane);
    std::thread::spawn(move || {
        let (step, lane) = ended;
        drop(lane);
        drop(step);
    })
    .join()
    .unwrap();
    control::advance_ns(60_000);
    assert_eq!(recorder.harvest(), 4);
    let telemetry = recorder.telemetry();
    let lanes = telemetry.instruments().lane[LANE_DECODE].snapshot();
    assert_eq!((lanes.count(), lanes.sum_ns()), (1, 60_000));
    let figures = telemetry.snapshot().lanes[LANE_DECODE].figures.unwrap();
    assert_eq!((figures.steps, figures.busy_ns), (1, 60_000));
    let host = telemetry.host();
    let walls = [&host.step_wall, &host.lane_wall[LANE_DECODE]].map(|wall| wall.count());
    assert_eq!((walls, host.launches.get()), ([1, 1], 3));
}

#[test]
fn a_task_that_is_dropped_ends_what_it_began() {
    let app = App::new();
    let recorder = Arc::new(app.recorder());
    {
        let task = async {
            let step = recorder.step_owned();
            let lane = step.lane(LANE_DECODE, stream(app.stream));
            launch(&app, &lane, 5_000);
            std::future::pending::<()>().await;
            launch(&app, &lane, 7_000);
        };
        let mut task = pin!(task);
        let poll = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll.is_pending());
        assert_eq!(ledgers(&recorder).in_flight, 2);
    }
    control::advance_ns(5_000);
    assert_eq!(recorder.harvest(), 2);
    let figures = recorder.telemetry().snapshot().lanes[LANE_DECODE].figures;
    assert_eq!(figures.unwrap().time_ns, 5_000);
    assert_eq!(Arc::strong_count(&recorder), 1);
}

#[test]
fn a_launch_that_fails_or_panics_leaves_no_sample() {
    let app = App::new();
    let recorder = Arc::new(app.recorder());
    let step = recorder.step_owned();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    assert_eq!(lane.launch(func(app.spin), || Err::<(), _>(7)), Err(7));
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        lane.launch(func(app.spin), || -> Result<(), ()> { panic!("as asked") })
    }));
    assert!(panics.is_err());
    assert_eq!(recorder.kernel_ledger().cancelled, 2);
    assert_eq!(recorder.telemetry().host().launches.get(), 0);
}

#[test]
fn at_off_nothing_is_counted_and_what_is_open_still_ends() {
    let app = App::new();
    let recorder = Arc::new(app.recorder());
    let step = recorder.step_owned();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    recorder.telemetry().set_level(Level::Off);
    launch(&app, &lane, 0);
    drop((lane, step));
    assert_eq!(recorder.harvest(), 1);
    let host = recorder.telemetry().host();
    assert_eq!((host.launches.get(), host.step_wall.count()), (0, 0));
    let off = recorder.step_owned();
    drop(off.lane(LANE_DECODE, stream(app.stream)));
    assert_eq!((off.number(), ledgers(&recorder).attempts), (None, 1));
}
