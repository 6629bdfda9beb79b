// SPDX-License-Identifier: MIT OR Apache-2.0
//! `metrale-gpu-bench` as a whole, on the simulated driver and without one.

use metrale_gpu_sim::child::library_folder;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const SECTIONS: [&str; 8] =
    ["host", "floor", "accuracy", "eager-steps", "graph-steps", "captures", "twins", "scripts"];

fn bench(out: &Path, arguments: &[&str], library_path: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_metrale-gpu-bench"))
        .args(arguments)
        .arg("--out")
        .arg(out)
        .env("LD_LIBRARY_PATH", library_path)
        .output()
        .expect("run")
}

/// Exit code 2, one line on standard error, and no file.
fn refused(arguments: &[&str], library_path: &Path) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let output = bench(&out, arguments, library_path);
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    assert_eq!(error.lines().count(), 1, "{arguments:?}: {error:?}");
    assert!(!out.exists(), "{arguments:?}");
    error
}

fn json(out: &Path) -> Value {
    let text = std::fs::read_to_string(out.join("gpu-bench.json")).expect("there");
    serde_json::from_str(&text).expect("JSON")
}

/// The rows of a table, each cell by the name of its column.
fn rows(section: &Value, table: &str) -> Vec<Value> {
    let tables = section["tables"].as_array().expect("tables");
    let found = tables.iter().find(|known| known["key"] == table);
    let found = found.unwrap_or_else(|| panic!("no table {table} in {section}"));
    let columns = found["columns"].as_array().expect("columns");
    let name = |column: &Value| column.as_str().expect("a name").to_owned();
    let row = |row: &Value| {
        let cells = row.as_array().expect("cells");
        assert_eq!(cells.len(), columns.len(), "{row}");
        columns.iter().map(name).zip(cells.iter().cloned()).collect()
    };
    found["rows"].as_array().expect("rows").iter().map(row).collect()
}

#[test]
fn every_section_is_measured_and_the_scripts_do_not_differ() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("a/b");
    let output = bench(&out, &["--driver", "sim", "--quick"], Path::new(""));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}{error}");
    assert!(said.starts_with("driver: ") && said.contains("libcuda.so.1"), "{said}");

    let json = json(&out);
    assert_eq!((&json["schema"], &json["simulated"]), (&2.into(), &true.into()));
    let sections = json["sections"].as_array().expect("sections");
    let ids: Vec<_> =
        sections.iter().map(|section| section["id"].as_str().expect("an id")).collect();
    assert_eq!(ids, SECTIONS);
    let page = std::fs::read_to_string(out.join("gpu-bench.md")).expect("there");
    assert!(page.contains("**Simulated driver.**"));
    for section in sections {
        assert_eq!(section["state"], "measured", "{section}");
        let title = section["title"].as_str().expect("a title");
        assert!(page.contains(&format!("\n## {title}\n")), "{title}");
        assert!(!section["tables"].as_array().expect("tables").is_empty(), "{title}");
    }
    let of = |id: &str| sections.iter().find(|section| section["id"] == id).expect("a section");

    assert_eq!(rows(of("scripts"), "differences"), Vec::<Value>::new());
    let note = of("scripts")["notes"][0].as_str().expect("a note").to_owned();
    let (ran, differ) = note.split_once(" scripts ran; ").expect("a count");
    assert!(ran.parse::<u32>().expect("a number") > 40, "{note}");
    assert_eq!(differ, "0 steps differ.");
    for row in rows(of("host"), "calls") {
        assert!(row["median, ns"].is_number(), "{row}");
    }
    // What follows from the simulator's rules is exact.
    for row in rows(of("eager-steps"), "steps") {
        let us = row["launches"].as_f64().expect("a count") * 2.0;
        assert_eq!(row["GPU, µs/step"], us, "{row}");
        assert_eq!(row["GPU, to none"], 1.0, "{row}");
    }
    for row in rows(of("accuracy"), "error") {
        let ns = row["kernel, µs"].as_f64().expect("a figure") * 1e3;
        assert_eq!(row["span, median, ns"], ns, "{row}");
        assert_eq!(row["error, median, ns"], "not measurable", "{row}");
    }
    // Marks take no time there unless they are told to.
    for row in rows(of("twins"), "marks") {
        assert_eq!(row["to none, µs"], 0.0, "{row}");
    }
    for row in rows(of("twins"), "recorder") {
        assert_eq!(row["twin to plain"], 1.0, "{row}");
        assert!(row["twin launches"].as_f64() > Some(0.0), "{row}");
    }
    assert_eq!(rows(of("twins"), "facts")[0]["answer"], "when its launch is queued");
    let captures = rows(of("captures"), "captures");
    let (control, guarded) = captures.split_last().expect("rows");
    assert_eq!(control["survived"], 0, "the check cannot fail: {control}");
    assert_eq!(guarded.len(), 9);
    for row in guarded {
        assert_eq!(row["survived"], row["captures"], "{row}");
        assert!(row["with a harvest inside"].as_u64() > Some(0), "{row}");
    }
}

#[test]
fn a_driver_that_is_simulated_is_refused_unless_asked_for() {
    let folder = library_folder();
    let error = refused(&[], &folder);
    assert!(error.contains("sim_*") && error.contains("--driver sim"), "{error}");
    assert!(error.contains(&folder.display().to_string()), "{error}");
}

#[test]
fn no_driver_and_no_device_are_one_line() {
    // A file that is no library ends the search of the dynamic linker.
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("libcuda.so.1"), "none").expect("written");
    let error = refused(&["--driver", "cuda"], folder.path());
    assert!(error.contains("no CUDA driver"), "{error}");
    let error = refused(&["--driver", "sim", "--device", "7"], Path::new(""));
    assert!(error.contains("--device 7"), "{error}");
}

#[test]
fn the_simulated_driver_must_be_named_and_there() {
    let asked = |folder: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_metrale-gpu-bench"));
        command.args(["--driver", "sim"]).env_remove("METRALE_SIM_DIR");
        command.envs(folder.map(|folder| ("METRALE_SIM_DIR", folder)));
        let output = command.output().expect("run");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    assert!(asked(None).contains("cargo xtask sim"));
    assert!(asked(Some("/nowhere")).contains("/nowhere/libcuda.so.1"));
}

#[test]
fn wrong_arguments_are_one_line() {
    for arguments in [
        &["--only", "nothing"][..],
        &["--driver", "auto"],
        &["--device", "x"],
        &["--bogus"],
        &["stray"],
    ] {
        refused(arguments, Path::new(""));
    }
}

#[test]
fn a_cut_run_keeps_what_it_had() {
    let out = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(env!("CARGO_BIN_EXE_metrale-gpu-bench"))
        .args(["--driver", "sim", "--only", "scripts", "--only", "eager-steps", "--out"])
        .arg(out.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("started");
    // The steps take tens of seconds where nobody asks for a quick run; their
    // first rows come long before their end.
    let file = out.path().join("gpu-bench.json");
    let has_row = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        // Each state of the file is whole.
        let json = (!text.is_empty()).then(|| serde_json::from_str::<Value>(&text).expect("JSON"));
        json.is_some_and(|json| json["sections"][0]["tables"][0]["rows"][0].is_array())
    };
    while !has_row() && child.try_wait().expect("asked").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
    let json = json(out.path());
    assert_eq!(json["sections"][0]["id"], "eager-steps", "the page's own order");
    assert!(json["sections"][0]["tables"][0]["rows"][0].is_array(), "{json}");
    assert_eq!(json["sections"][1]["state"], "unfinished");
}
