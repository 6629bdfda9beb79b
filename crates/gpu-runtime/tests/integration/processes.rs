// SPDX-License-Identifier: MIT OR Apache-2.0
//! A forked child and a process that exits: no driver call, nothing destroyed.
#![cfg(unix)]

use super::rig;
use super::rig::{App, config, func, stream};
use metrale_gpu_runtime::timing::{self, FuncRef, Recorder, RecorderConfig};
use metrale_gpu_sim::child;
use metrale_telemetry::Telemetry;
use metrale_telemetry::clock::monotonic_ns;
use metrale_telemetry::kernel::LANE_DECODE;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn own_thread() -> RecorderConfig {
    RecorderConfig {
        // The simulator's clock has a lock, which a fork may catch held.
        clock: monotonic_ns,
        ..rig::own_thread()
    }
}

fn lane(app: &App, recorder: &Recorder) {
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    drop(lane.launch_guard(func(app.spin)));
}

/// What a forked child does with the recorders that it inherits; the number of
/// the first thing that is wrong.
///
/// The simulator answers every call of a child with 3, as the driver does, and
/// that would quarantine: whoever is not quarantined made no call.
fn inherit(app: &App, recorders: Vec<Recorder>) -> i32 {
    for recorder in &recorders {
        let before = (recorder.lane_ledger(), recorder.kernel_ledger());
        lane(app, recorder);
        let landed = recorder.harvest() as u64 + recorder.drain(Duration::from_secs(3_600)).landed;
        let after = (recorder.lane_ledger(), recorder.kernel_ledger());
        if landed != 0 || recorder.health().quarantined.is_some() {
            return 1;
        }
        if after.0.refused != before.0.refused + 1 || after.1.refused != before.1.refused + 1 {
            return 2;
        }
        // Nobody waits for what the parent left.
        let health = recorder.health();
        let ages = [health.oldest_open, health.oldest_closed];
        if ages != [None; 2] || !recorder.oldest_spans().is_empty() {
            return 4;
        }
        let _ = (recorder.kernels(), recorder.graph("inherited"));
    }
    timing::lane_begin(LANE_DECODE, stream(app.stream));
    timing::lane_end(LANE_DECODE, stream(app.stream));
    timing::harvest();
    if timing::installed().is_none_or(|recorder| recorder.health().quarantined.is_some()) {
        return 3;
    }
    // One is closed, the others are dropped; no thread is waited for.
    let mut recorders = recorders.into_iter();
    if let Some(first) = recorders.next() {
        first.close();
    }
    drop(recorders);
    0
}

#[test]
fn a_forked_child_is_silent() {
    const NAME: &str = "processes::a_forked_child_is_silent";
    if !child::is_child() {
        return child::passes(NAME, &[]);
    }
    let app = App::new();
    let explicit = RecorderConfig { clock: monotonic_ns, ..config() };
    timing::install(app.try_recorder(explicit.clone()).unwrap()).unwrap();
    for round in 0..20 {
        let recorders: Vec<_> = [explicit.clone(), own_thread(), explicit.clone(), own_thread()]
            .into_iter()
            .map(|config| app.try_recorder(config).unwrap())
            .collect();
        for recorder in &recorders {
            lane(&app, recorder);
        }
        // SAFETY: the child runs `inherit` and leaves by `_exit`. Other threads
        // are inside the simulator at most, which the child does not enter, or
        // the allocator, which is whole after a fork.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork");
        if pid == 0 {
            let wrong = inherit(&app, recorders);
            // SAFETY: ends this process without handlers or destructors.
            unsafe { libc::_exit(wrong) };
        }
        let mut status = 0;
        // SAFETY: our own child, and a pointer to a live integer.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(waited, pid);
        assert!(libc::WIFEXITED(status), "round {round}: {status:#x}");
        assert_eq!(libc::WEXITSTATUS(status), 0, "round {round}: see `inherit`");
        // The parent goes on.
        for recorder in &recorders {
            lane(&app, recorder);
            while recorder.lane_ledger().in_flight > 0 {
                recorder.harvest();
            }
        }
    }
    assert_eq!(rig::calls("cuEventDestroy_v2"), 0);
}

/// What a child asks of a recorder while threads that were not forked may have
/// held any of its locks.
fn ask_everything(app: &App, recorder: &Recorder, number: u64) {
    let row = recorder.graph("of the child");
    recorder.name(FuncRef::from_raw(0x1000 + number), "of the child");
    recorder.forget(FuncRef::from_raw(0x1000 + number));
    let _ = recorder.kernels();
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    // Functions that were never met: of both kinds.
    drop(lane.launch_guard(func(0x9000_0000 + number)));
    drop(lane.launch_guard(rig::loaded(app.other)));
    drop(lane.launch_guard(row));
    drop(lane);
    let _ = (recorder.harvest(), recorder.health(), format!("{recorder:?}"));
    ask_telemetry(recorder.telemetry());
}

/// Every reader of a telemetry: each may meet a lock that nobody lets go of.
fn ask_telemetry(telemetry: &Telemetry) {
    let _ = (telemetry.snapshot(), telemetry.kernel_estimates());
    let _ = (telemetry.step_losses(), telemetry.recent_steps());
    let _ = (telemetry.timelines(), telemetry.slowest_steps());
    let _ = telemetry.lane_estimate(LANE_DECODE);
    let _ = format!("{telemetry:?}");
}

#[test]
fn a_child_forked_under_load_returns_from_every_call() {
    const NAME: &str = "processes::a_child_forked_under_load_returns_from_every_call";
    if !child::is_child() {
        return child::passes(NAME, &[]);
    }
    let app = App::new();
    let recorder = app.try_recorder(own_thread()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (app, recorder, is_over) = (&app, &recorder, &is_over);
            scope.spawn(move || {
                let mut number = 0;
                while !is_over.load(Ordering::Relaxed) {
                    number += 1;
                    match thread {
                        0 => drop(recorder.kernels()),
                        1 => recorder.name(func(number % 900 + 1), "busy"),
                        2 => ask_telemetry(recorder.telemetry()),
                        _ => ask_everything(app, recorder, number % 900),
                    }
                }
            });
        }
        for round in 0..500 {
            // SAFETY: the child makes calls of ours only and leaves by `_exit`;
            // the allocator is whole after a fork.
            let pid = unsafe { libc::fork() };
            assert!(pid >= 0, "fork");
            if pid == 0 {
                // SAFETY: ends a child that hangs.
                unsafe { libc::alarm(20) };
                ask_everything(&app, &recorder, round);
                let wrong = i32::from(recorder.health().quarantined.is_some());
                // SAFETY: ends this process without handlers or destructors.
                unsafe { libc::_exit(wrong) };
            }
            let mut status = 0;
            // SAFETY: our own child, and a pointer to a live integer.
            let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
            let is_well =
                waited == pid && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
            if !is_well {
                is_over.store(true, Ordering::Relaxed);
            }
            assert!(is_well, "round {round}: {status:#x}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

static CALLS: AtomicU64 = AtomicU64::new(0);

/// The exit code of a child in which all is well.
const QUIET: i32 = 47;

/// Registered by the application before the recorder was made, as the driver's
/// own handlers are: it runs after the recorder's.
extern "C" fn driver_goes() {
    CALLS.store(rig::all_calls(), Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(50));
    let made = rig::all_calls() - CALLS.load(Ordering::Relaxed) - 1;
    let destroyed = rig::calls("cuEventDestroy_v2");
    let code = if made == 0 && destroyed == 0 { QUIET } else { 1 };
    // SAFETY: ends this process.
    unsafe { libc::_exit(code) };
}

fn exits_quietly(name: &str, prepare: fn(&App)) {
    if !child::is_child() {
        let output = child::run(name, &[]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(QUIET), "{name}: {told}");
        return;
    }
    let app = App::new();
    // SAFETY: a function without arguments that does not unwind.
    assert_eq!(unsafe { libc::atexit(driver_goes) }, 0);
    prepare(&app);
    std::process::exit(2);
}

#[test]
fn nothing_is_called_once_the_process_exits() {
    exits_quietly("processes::nothing_is_called_once_the_process_exits", |app| {
        let recorder = app.try_recorder(own_thread()).unwrap();
        lane(app, &recorder);
        // The GPU never gets there: the thread polls until the end.
        assert!(app.launch(app.spin, app.stream, u64::MAX / 2).is_success());
        lane(app, &recorder);
        rig::wait_for(|| rig::calls("cuEventQuery") >= 20);
        std::mem::forget(recorder);
    });
}

/// Dropped, and closed, by handlers that run after the recorder's own.
#[test]
fn recorders_that_go_at_exit_leak() {
    static LEFT: std::sync::Mutex<Vec<Recorder>> = std::sync::Mutex::new(Vec::new());
    extern "C" fn go() {
        let left = std::mem::take(&mut *LEFT.lock().unwrap());
        for (which, recorder) in left.into_iter().enumerate() {
            let _ = recorder.harvest();
            if which % 2 == 0 {
                recorder.close();
            } else {
                drop(recorder);
            }
        }
    }
    exits_quietly("processes::recorders_that_go_at_exit_leak", |app| {
        // SAFETY: a function without arguments that does not unwind.
        assert_eq!(unsafe { libc::atexit(go) }, 0);
        let configs = [config(), config(), own_thread(), own_thread()];
        let made = configs.map(|config| app.try_recorder(config).unwrap());
        for recorder in &made {
            lane(app, recorder);
        }
        *LEFT.lock().unwrap() = made.into();
    });
}
