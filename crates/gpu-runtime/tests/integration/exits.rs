// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread of the application that is inside the recorder as the process
//! exits: in any call of any path.
#![cfg(unix)]

use super::rig::{self, App, config, func, loaded, stream};
use metrale_gpu_runtime::timing::{Harvest, Recorder, RecorderConfig, Status, StreamRef};
use metrale_gpu_sim::child;
use metrale_gpu_sim::control;
use metrale_telemetry::clock::monotonic_ns;
use metrale_telemetry::kernel::LANE_DECODE;
use std::ffi::OsStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Names the case to the child.
const CASE: &str = "METRALE_EXIT_CASE";
/// The exit code of a child in which all is well.
const QUIET: i32 = 47;

fn explicit() -> RecorderConfig {
    RecorderConfig {
        // The exit may not wait for the simulator's clock.
        clock: monotonic_ns,
        measure_floor: true,
        ..config()
    }
}

fn own() -> RecorderConfig {
    RecorderConfig { harvest: Harvest::OwnThread(Duration::from_micros(100)), ..explicit() }
}

fn lane(app: &App, recorder: &Recorder) {
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    drop(lane.launch_guard(func(app.spin)));
}

/// A path of ours that another thread is on when the process exits.
type Path = fn(&'static App, Recorder);

fn close(_: &'static App, recorder: Recorder) {
    recorder.close();
}

fn harvest(app: &'static App, recorder: Recorder) {
    // Several spans and a gap, of both rings.
    for _ in 0..3 {
        lane(app, &recorder);
    }
    recorder.harvest();
}

fn make(app: &'static App, _: Recorder) {
    let _ = app.try_recorder(explicit()).map(std::mem::forget);
}

fn make_in_vain(app: &'static App, recorder: Recorder) {
    rig::fail("cuEventCreate", Status::ERROR_OUT_OF_MEMORY, 50);
    make(app, recorder);
}

fn launch(app: &'static App, recorder: Recorder) {
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    drop(lane.launch_guard(loaded(app.other)));
}

/// On a default stream of a context that is not current.
fn enter(app: &'static App, recorder: Recorder) {
    assert!(rig::cu!("cuCtxSetCurrent", 0 => u64).is_success());
    // SAFETY: the default stream of a context that lives.
    let on = unsafe { StreamRef::from_raw_of(2, super::rig::context(app.context)) };
    drop(recorder.step().lane(LANE_DECODE, on));
}

/// A thread of the recorder's own.
fn own_thread(app: &'static App, _: Recorder) {
    let recorder = app.try_recorder(own()).unwrap();
    lane(app, &recorder);
    std::mem::forget(recorder);
}

#[rustfmt::skip]
const CASES: [(&str, Path, &str); 24] = [
    ("close, enters", close, "cuCtxPushCurrent_v2"),
    ("close, looks", close, "cuCtxGetId"),
    ("close, destroys", close, "cuEventDestroy_v2"),
    ("close, leaves", close, "cuCtxPopCurrent_v2"),
    ("harvest, guards", harvest, "cuThreadExchangeStreamCaptureMode"),
    ("harvest, asks", harvest, "cuEventQuery"),
    ("harvest, reads", harvest, "cuEventElapsedTime_v2"),
    ("own thread, asks", own_thread, "cuEventQuery"),
    ("make, enters", make, "cuCtxPushCurrent_v2"),
    ("make, creates", make, "cuEventCreate"),
    ("make, takes back", make_in_vain, "cuEventDestroy_v2"),
    ("make, identifies", make, "cuCtxGetId"),
    ("make, asks for the device", make, "cuCtxGetDevice"),
    ("make, asks for its id", make, "cuDeviceGetUuid"),
    ("make, asks for its name", make, "cuDeviceGetName"),
    ("make, has a stream", make, "cuStreamCreate"),
    ("make, records", make, "cuEventRecord"),
    ("make, reads", make, "cuEventElapsedTime_v2"),
    ("make, has no stream", make, "cuStreamDestroy_v2"),
    ("lane, asks for the stream's number", launch, "cuStreamGetId"),
    ("launch, asks for the name", launch, "cuFuncGetName"),
    ("launch, records", launch, "cuEventRecord"),
    ("lane, asks who is current", enter, "cuCtxGetCurrent"),
    ("lane, enters", enter, "cuCtxPushCurrent_v2"),
];

static HUNG: OnceLock<&'static str> = OnceLock::new();

/// The driver's own handler: once it ran, the call that hangs comes back, and
/// no other is made.
extern "C" fn driver_goes() {
    let Some(hung) = HUNG.get() else { return };
    let (before, hung_before) = (rig::all_calls(), rig::calls(hung));
    control::release(hung).unwrap();
    while rig::calls(hung) == hung_before {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(30));
    let made = rig::all_calls() - before - 1;
    if made != 1 {
        eprintln!("{made} calls, {hung} among them");
    }
    // SAFETY: ends this process.
    unsafe { libc::_exit(if made == 1 { QUIET } else { 1 }) };
}

fn run(path: Path, hung: &'static str) -> ! {
    let app: &'static App = Box::leak(Box::new(App::new()));
    // SAFETY: a function without arguments that does not unwind.
    assert_eq!(unsafe { libc::atexit(driver_goes) }, 0);
    let recorder = app.try_recorder(explicit()).unwrap();
    HUNG.set(hung).unwrap();
    control::hang(hung).unwrap();
    std::thread::spawn(move || path(app, recorder));
    rig::wait_until_hung(hung, 1);
    std::process::exit(2);
}

#[test]
fn a_thread_in_any_call_makes_no_other_once_the_process_exits() {
    const NAME: &str = "exits::a_thread_in_any_call_makes_no_other_once_the_process_exits";
    if child::is_child() {
        let case = std::env::var(CASE).unwrap();
        let (_, path, hung) = CASES.into_iter().find(|known| known.0 == case).unwrap();
        run(path, hung);
    }
    // Each of them waits for a fifth of a second.
    let outputs: Vec<_> = std::thread::scope(|scope| {
        let runs = CASES.map(|(case, ..)| {
            scope.spawn(move || (case, child::run(NAME, &[(CASE, OsStr::new(case))])))
        });
        runs.map(|run| run.join().unwrap()).into()
    });
    let noisy: Vec<_> = outputs
        .into_iter()
        .filter(|(_, output)| output.status.code() != Some(QUIET))
        .map(|(case, output)| {
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            format!("{case}: {} {told}", output.status)
        })
        .collect();
    assert!(noisy.is_empty(), "{noisy:#?}");
}

/// A call of any path but a record's is over before the driver goes, if it ends
/// soon.
#[test]
fn an_exit_waits_a_little_for_a_call_of_another_thread() {
    const NAME: &str = "exits::an_exit_waits_a_little_for_a_call_of_another_thread";
    const WAITED_FOR: [&str; 5] = [
        "close, destroys",
        "harvest, asks",
        "own thread, asks",
        "make, creates",
        "launch, asks for the name",
    ];
    static EXITING: AtomicBool = AtomicBool::new(false);
    extern "C" fn exiting() {
        EXITING.store(true, Ordering::Relaxed);
    }
    extern "C" fn driver_goes_after_it() {
        let hung = HUNG.get().expect("set before");
        let code = if control::hung_calls(hung) == Ok(0) { QUIET } else { 3 };
        // SAFETY: ends this process.
        unsafe { libc::_exit(code) };
    }
    if !child::is_child() {
        for case in WAITED_FOR {
            let output = child::run(NAME, &[(CASE, OsStr::new(case))]);
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(QUIET), "{case}: {told}");
        }
        return;
    }
    let case = std::env::var(CASE).unwrap();
    let (_, path, hung) = CASES.into_iter().find(|known| known.0 == case).unwrap();
    let app: &'static App = Box::leak(Box::new(App::new()));
    // SAFETY: a function without arguments that does not unwind.
    assert_eq!(unsafe { libc::atexit(driver_goes_after_it) }, 0);
    let recorder = app.try_recorder(explicit()).unwrap();
    // SAFETY: as above; it runs before the recorder's own.
    assert_eq!(unsafe { libc::atexit(exiting) }, 0);
    HUNG.set(hung).unwrap();
    control::hang(hung).unwrap();
    std::thread::spawn(move || path(app, recorder));
    rig::wait_until_hung(hung, 1);
    std::thread::spawn(move || {
        while !EXITING.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(5));
        control::release(hung).unwrap();
    });
    std::process::exit(2);
}

/// What is asked for once the exit began is answered without a call: by
/// handlers that run after the recorder's own.
#[test]
fn nothing_is_made_at_exit() {
    const NAME: &str = "exits::nothing_is_made_at_exit";
    static APP: OnceLock<&App> = OnceLock::new();
    extern "C" fn late() {
        let (app, before) = (APP.get().expect("set before"), rig::all_calls());
        let made = [explicit(), own()].map(|config| app.try_recorder(config));
        let is_refused = made.iter().all(Result::is_err);
        // Each asked the driver that it was given for its version.
        let calls = rig::all_calls() - before - 1 - made.len() as u64;
        eprintln!("{made:?}, {calls} calls");
        // SAFETY: ends this process.
        unsafe { libc::_exit(if is_refused && calls == 0 { QUIET } else { 1 }) };
    }
    if !child::is_child() {
        let output = child::run(NAME, &[]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(QUIET), "{told}");
        return;
    }
    let app = APP.get_or_init(|| Box::leak(Box::new(App::new())));
    // SAFETY: a function without arguments that does not unwind.
    assert_eq!(unsafe { libc::atexit(late) }, 0);
    drop(app.recorder());
    std::process::exit(2);
}
