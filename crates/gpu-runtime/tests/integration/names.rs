// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kernels and graphs are called, and that no row takes on another's name.

use super::rig::{App, calls, config, func, function, load_module, loaded, stream, unload_module};
use metrale_gpu_runtime::timing::{
    Driver, NamedKernel, Recorder, RecorderConfig, Status, demangle,
};
use metrale_gpu_sim::control;
use metrale_telemetry::kernel::LANE_DECODE;
use metrale_telemetry::snapshot::RowKind;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

fn module_of(names: &[&str]) -> u64 {
    let entries: String = names
        .iter()
        .map(|name| format!(".visible .entry {name}(.param .u64 duration_ns) {{ ret; }}\n"))
        .collect();
    load_module(&format!(".version 6.0\n.target sm_50\n.address_size 64\n{entries}"))
}

/// One timed launch, landed.
fn run(app: &App, recorder: &Recorder, kernel: u64, ns: u64) {
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    let launch = lane.launch_guard(loaded(kernel));
    assert!(app.launch(kernel, app.stream, ns).is_success());
    drop(launch);
    drop(lane);
    control::advance_ns(ns);
    assert_eq!(recorder.harvest(), 2);
}

fn rows(recorder: &Recorder) -> Vec<(Option<String>, u64, u64)> {
    let row = |row: NamedKernel| (row.name.map(|name| name.to_string()), row.total_ns, row.samples);
    recorder.kernels().into_iter().map(row).collect()
}

fn named(name: &str, ns: u64, samples: u64) -> (Option<String>, u64, u64) {
    (Some(name.to_owned()), ns, samples)
}

#[test]
fn the_applications_name_wins_and_the_driver_is_asked_once() {
    let app = App::new();
    let recorder = app.recorder();
    recorder.name(func(app.spin), "attention");
    for _ in 0..3 {
        run(&app, &recorder, app.spin, 100);
        run(&app, &recorder, app.other, 10);
    }
    assert_eq!(calls("cuFuncGetName"), 1, "only for the one that has no name");
    assert_eq!(rows(&recorder), [named("attention", 300, 3), named("other", 30, 3)]);
    // Also when it comes later, and again.
    recorder.name(func(app.other), "norm");
    recorder.name(func(app.spin), "attention v2");
    run(&app, &recorder, app.other, 10);
    assert_eq!(rows(&recorder), [named("attention v2", 300, 3), named("norm", 40, 4)]);
    // Not at harvest, not by readers, not on steps that are not armed.
    let unarmed = metrale_telemetry::TelemetryConfig {
        every: u64::MAX,
        ..metrale_telemetry::TelemetryConfig::DEFAULT
    };
    let quiet = app.recorder();
    quiet.telemetry().configure(unarmed).unwrap();
    let step =
        (0..1_000).map(|_| quiet.step()).find(|step| !step.is_armed()).expect("an unarmed step");
    drop(step.lane(LANE_DECODE, stream(app.stream)).launch_guard(loaded(app.other)));
    quiet.harvest();
    assert_eq!(quiet.kernels(), []);
    assert_eq!(calls("cuFuncGetName"), 1);
}

#[test]
fn a_handle_used_again_after_forget_has_a_row_of_its_own() {
    let app = App::new();
    let recorder = app.recorder();
    let old = module_of(&["_Z3oldy"]);
    let kernel = function(old, c"_Z3oldy");
    run(&app, &recorder, kernel, 1_000);
    // A launch is still in flight when the application forgets the function.
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    let launch = lane.launch_guard(loaded(kernel));
    assert!(app.launch(kernel, app.stream, 500).is_success());
    drop(launch);
    drop(lane);
    recorder.forget(func(kernel));
    unload_module(old);

    let new = module_of(&["_Z3newy"]);
    assert_eq!(function(new, c"_Z3newy"), kernel, "the handle is used again");
    control::advance_ns(500);
    assert_eq!(recorder.harvest(), 2);
    run(&app, &recorder, kernel, 20);
    run(&app, &recorder, kernel, 20);
    assert_eq!(rows(&recorder), [named("_Z3oldy", 1_500, 2), named("_Z3newy", 40, 2)]);
    assert_eq!(calls("cuFuncGetName"), 2);

    // The old kernel comes back: its row goes on.
    recorder.forget(func(kernel));
    unload_module(new);
    let again = module_of(&["_Z3oldy"]);
    assert_eq!(function(again, c"_Z3oldy"), kernel);
    run(&app, &recorder, kernel, 1_000);
    assert_eq!(rows(&recorder), [named("_Z3oldy", 2_500, 3), named("_Z3newy", 40, 2)]);

    // A name by the application is forgotten too, and one that nobody names
    // gets none of the others'.
    recorder.forget(func(kernel));
    unload_module(again);
    control::hide_symbol("cuFuncGetName").unwrap();
    let nameless = app.recorder();
    nameless.name(func(kernel), "first");
    let first = module_of(&["a"]);
    run(&app, &nameless, kernel, 7);
    nameless.forget(func(kernel));
    unload_module(first);
    module_of(&["b"]);
    run(&app, &nameless, kernel, 5);
    assert_eq!(rows(&nameless), [named("first", 7, 1), (None, 5, 1)]);
    nameless.name(func(kernel), "second");
    assert_eq!(rows(&nameless), [named("first", 7, 1), named("second", 5, 1)]);
    assert_eq!(control::stale_handle_uses(), 0, "a dead function is never asked about");
}

/// A raw handle is only a number: it may long be dead.
#[test]
fn a_handle_that_nobody_vouches_for_is_never_given_to_the_driver() {
    let app = App::new();
    let recorder = app.recorder();
    for handle in [app.spin, 0xdead_0000, u64::MAX, 0] {
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, stream(app.stream));
        drop(lane.launch_guard(func(handle)));
    }
    recorder.harvest();
    assert_eq!(calls("cuFuncGetName"), 0);
    assert_eq!(recorder.kernels().len(), 3);
    assert!(recorder.kernels().iter().all(|row| row.name.is_none()));
    assert_eq!(recorder.telemetry().instruments().table_full.get(), 1, "handle 0");
    recorder.forget(func(0));
    recorder.name(func(0), "none");
    // Vouched for later, it is asked about; also after it was forgotten.
    for asked in 1..=2 {
        run(&app, &recorder, app.spin, 1);
        assert_eq!(calls("cuFuncGetName"), asked);
        recorder.forget(func(app.spin));
        drop(recorder.step().lane(LANE_DECODE, stream(app.stream)).launch_guard(func(app.spin)));
        recorder.harvest();
    }
    let rows = recorder.kernels();
    let named = rows.iter().filter(|row| row.name.is_some());
    assert_eq!(named.count(), 2);
}

#[test]
fn a_huge_name_is_kept_whole() {
    let app = App::new();
    let recorder = app.recorder();
    let huge = format!("_Z70000{}y", "x".repeat(70_000));
    let twin = format!("_Z70000{}yy", "x".repeat(70_000));
    let module = module_of(&[&huge, &twin]);
    for (name, ns) in [(&huge, 30), (&twin, 20)] {
        let c_name = std::ffi::CString::new(name.as_str()).unwrap();
        run(&app, &recorder, function(module, &c_name), ns);
    }
    assert_eq!(rows(&recorder), [named(&huge, 30, 1), named(&twin, 20, 1)]);
    assert_eq!(demangle(&huge), huge, "too long to be made readable");
    assert_eq!(recorder.health().names_lost, 0);
}

/// Names that no PTX text has; found by a driver that makes them up.
#[test]
fn invalid_and_missing_names_harm_nothing() {
    unsafe extern "C" fn made_up(out: *mut *const c_char, function: u64) -> u32 {
        let name: *const c_char = match function {
            1 => c"good".as_ptr(),
            2 => c"bad \xff\xfe name".as_ptr(),
            3 => c"bad \xff\xfd name".as_ptr(),
            4 => c"".as_ptr(),
            _ => std::ptr::null(),
        };
        // SAFETY: the caller passes a pointer to a live pointer.
        unsafe { out.write(name) };
        0
    }
    let app = App::new();
    let find = |name: &CStr| {
        if name == c"cuFuncGetName" {
            return made_up as *const c_void;
        }
        let name = name.to_str().expect("names are ASCII");
        metrale_gpu_sim::symbol(name).unwrap_or(std::ptr::null())
    };
    // SAFETY: the simulator's functions, and ours, have the driver's signatures.
    let driver = unsafe { Driver::from_symbols("the simulator", find) };
    let driver = Arc::new(driver.unwrap());
    // SAFETY: the context lives as long as the application.
    let recorder = unsafe {
        Recorder::from_raw(
            driver,
            super::rig::context(app.context),
            super::rig::telemetry(),
            config(),
        )
    };
    let recorder = recorder.unwrap();
    for kernel in 1..=5 {
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, stream(app.stream));
        drop(lane.launch_guard(loaded(kernel)));
    }
    recorder.harvest();
    let names: Vec<_> =
        recorder.kernels().into_iter().map(|row| row.name.map(|name| name.to_string())).collect();
    let expected =
        [Some("good"), Some(r"bad \xff\xfe name"), Some(r"bad \xff\xfd name"), Some(""), None];
    assert_eq!(names, expected.map(|name| name.map(str::to_owned)));
}

#[test]
fn names_are_bounded() {
    let app = App::new();
    let wide = RecorderConfig { kernel_slots: 4096, ..config() };
    let recorder = app.try_recorder(wide).unwrap();
    // Functions: 1,024 are remembered.
    let step = recorder.step();
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    for kernel in 1..=1_100 {
        recorder.name(func(kernel * 0x100), "k");
        drop(lane.launch_guard(func(kernel * 0x100)));
    }
    drop(lane);
    assert_eq!(recorder.harvest(), 1_101);
    assert_eq!(recorder.health().names_lost, 76);
    assert_eq!(recorder.kernels().len(), 512);
    assert_eq!(recorder.telemetry().instruments().table_full.get(), 1_100 - 512);

    // Bytes: 16 MiB of them.
    let recorder = app.recorder();
    let mebi = "g".repeat((1 << 20) - 8);
    let graphs: Vec<_> = (0..20).map(|n| recorder.graph(&format!("{mebi}{n:08}"))).collect();
    assert_eq!(graphs.iter().filter(|graph| graph.row() == 0).count(), 4);
    assert_eq!(recorder.health().names_lost, 4);
    assert_eq!(recorder.graph(&format!("{mebi}{:08}", 3)), graphs[3]);
}

#[test]
fn graph_launches_have_rows_of_their_own() {
    let app = App::new();
    let recorder = app.recorder();
    let (small, large) = (recorder.graph("decode bs=8"), recorder.graph("decode bs=64"));
    assert_ne!(small, large);
    assert_eq!(recorder.graph("decode bs=8"), small, "the name is what counts");
    let execs = [(small, app.graph_exec(4_000)), (large, app.graph_exec(9_000))];
    for _ in 0..3 {
        let step = recorder.step();
        let lane = step.lane(LANE_DECODE, stream(app.stream));
        for (graph, exec) in execs {
            let launch = lane.launch_guard(graph);
            assert!(launch.is_timed());
            assert!(app.launch_graph(exec, app.stream).is_success());
            drop(launch);
        }
        let launch = lane.launch_guard(loaded(app.spin));
        assert!(app.launch(app.spin, app.stream, 100).is_success());
        drop(launch);
        drop(lane);
        drop(step);
        control::advance_ns(13_100);
        assert_eq!(recorder.harvest(), 4);
    }
    let rows = recorder.kernels();
    let seen: Vec<_> = rows
        .iter()
        .map(|row| (row.name.as_deref().unwrap(), row.kind, row.total_ns, row.samples))
        .collect();
    assert_eq!(
        seen,
        [
            ("decode bs=64", RowKind::Graph, 27_000, 3),
            ("decode bs=8", RowKind::Graph, 12_000, 3),
            ("spin", RowKind::Kernel, 300, 3),
        ]
    );
    assert_eq!(rows[0].func, large.row());
    // The table explains the lane to the last nanosecond.
    let lane = &recorder.telemetry().snapshot().lanes[LANE_DECODE];
    let figures = lane.figures.unwrap();
    assert_eq!((figures.idle_ns(), figures.overlap_ns), (0, 0));
    assert_eq!(figures.time_ns, lane.gpu.sum_ns());
    // A graph is not a kernel that a handle could name.
    assert_eq!(small.row() >> 63, 1);

    // Captured into another graph, it is refused like the rest.
    let step = recorder.step();
    app.begin_capture(app.stream, super::rig::THREAD_LOCAL);
    let lane = step.lane(LANE_DECODE, stream(app.stream));
    assert!(!lane.launch_guard(small).is_timed());
    drop(lane);
    assert_eq!(app.end_capture(app.stream), Status::SUCCESS);
    assert_eq!(recorder.kernel_ledger().refused, 1);
}

/// Threads that meet, name and forget at once; each row keeps one name.
#[test]
fn threads_meet_functions_at_once() {
    let app = App::new();
    let recorder =
        app.try_recorder(RecorderConfig { kernel_slots: 8192, lane_slots: 8192, ..config() });
    let recorder = recorder.unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (app, recorder) = (&app, &recorder);
            scope.spawn(move || {
                let step = recorder.step();
                let lane = step.lane(LANE_DECODE, stream(app.stream));
                for round in 0..500 {
                    let own = 0x10_000 * (thread + 1);
                    drop(lane.launch_guard(loaded(app.spin)));
                    drop(lane.launch_guard(func(own)));
                    if round % 50 == 0 {
                        recorder.forget(func(own));
                        recorder.name(func(own), &format!("thread {thread}"));
                    }
                }
            });
        }
    });
    control::advance_ns(1);
    recorder.harvest();
    let rows = recorder.kernels();
    let samples = |name: &str| -> u64 {
        let of_name = rows.iter().filter(|row| row.name.as_deref() == Some(name));
        of_name.map(|row| row.samples).sum()
    };
    assert_eq!(samples("spin"), 2_000);
    for thread in 0..4 {
        // The first launch came before the first name; its row was retired
        // without one.
        assert_eq!(samples(&format!("thread {thread}")), 499);
    }
    assert_eq!(rows.iter().map(|row| row.samples).sum::<u64>(), 4_000);
}
