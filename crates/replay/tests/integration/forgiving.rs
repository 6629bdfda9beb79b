// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces whose writers were not exact: read for what they say, and what is not
//! JSON in them is counted.

use crate::common::bytes;
use crate::common::planned;
use crate::common::record::{DECODE, document, kernel, launch, read, step};
use metrale_replay::plan::{Plan, Timing};
use metrale_replay::steps::Lane;
use metrale_replay::trace::{DropReason, Drops, Trace, WorkKind};

/// A trace of one good kernel around `entry`.
fn around(entry: &[u8]) -> Trace {
    let good = |ts| kernel("good", 7, 0, ts, 2);
    let (before, after) = (good(100), good(200));
    let parts = [
        b"{\"traceEvents\":[\n",
        before.as_bytes(),
        b",\n",
        entry,
        b",\n",
        after.as_bytes(),
        b"\n]}",
    ];
    let name = String::from_utf8_lossy(entry).into_owned();
    bytes::read(parts.concat()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn good_kernels(trace: &Trace) -> usize {
    let good = |kind| matches!(kind, WorkKind::Kernel(name) if trace.names.get(name) == b"good");
    trace.work.iter().filter(|work| good(work.kind)).count()
}

#[test]
fn what_is_not_json_and_not_used_is_read_over_and_counted() {
    let of = |cat: &str, rest: &str| format!(r#"{{"ph":"X",{cat},"ts":1,"dur":1{rest}}}"#);
    let skipped = |rest: &str| of("\"cat\":\"cpu_op\"", rest);
    let cases: Vec<(Vec<u8>, u64)> = [
        (skipped(",\"x\":NaN"), 1),
        (skipped(",\"x\":[inf,-inf,-Infinity,nan]"), 4),
        (skipped(",\"args\":{\"x\":-nan(ind),\"y\":{\"z\":1.#INF}}"), 2),
        (skipped(",\"x\":\"a\tb\""), 1),
        (skipped(",\"x\":\"a\nb\u{1}\""), 1),
        (skipped(",\"x\":\"\\x41\\'\""), 1),
        (skipped(",\"x\":\"\\u12\""), 1),
        (skipped(",\"x\":"), 1),
        (skipped(",\"x\t\":1"), 1),
        (skipped(",\"name\":null"), 1),
        (skipped(",\"name\":7"), 1),
        (skipped(",\"name\":NaN"), 1),
        (skipped(",\"name\":\"a\tb\""), 1),
        (of("\"name\":null,\"cat\":\"cpu_op\"", ""), 1),
        (of("\"name\":[7],\"cat\":\"cpu_op\"", ""), 1),
        (of("\"name\":\"a\\qb\",\"cat\":\"cpu_op\"", ""), 1),
        (of("\"cat\":null", ""), 1),
        (of("\"cat\":7,\"name\":\"x\"", ""), 1),
        (of("\"cat\":inf,\"name\":8", ""), 2),
        (of("\"cat\":\"ker\u{2}nel\"", ""), 1),
        // Of no category: stamps are not used.
        (r#"{"ph":"M","ts":NaN,"dur":inf}"#.to_owned(), 2),
        (r#"{"ts":NaN,"pid":inf,"cat":"cpu_op"}"#.to_owned(), 2),
    ]
    .map(|(entry, count)| (entry.into_bytes(), count))
    .into();
    for (entry, count) in cases {
        let name = String::from_utf8_lossy(&entry).into_owned();
        let trace = around(&entry);
        let drops = trace.drops;
        assert_eq!((drops.total(), drops.rounded, drops.read_over), (0, 0, count), "{name}");
        assert_eq!((good_kernels(&trace), trace.work.len()), (2, 2), "{name}");
        let plan = planned(&trace, Timing::Ideal);
        let note = format!("{count} values that are not JSON");
        assert!(plan.notes.iter().any(|n| n.contains(&note)), "{name}");
    }
}

/// A kernel, a call or an annotation keeps what it can do without.
#[test]
fn what_is_not_json_in_an_event_that_is_taken() {
    for entry in [
        r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":150,"dur":1,"args":{"occupancy":NaN,"device":0,"stream":7}}"#,
        r#"{"ph":"X","cat":"gpu_memcpy","name":"a	b","pid":0,"tid":7,"ts":150,"dur":1}"#,
        r#"{"ph":"X","cat":"gpu_memset","name":null,"pid":NaN,"tid":7,"ts":150,"dur":1,"args":{"device":0}}"#,
    ] {
        let trace = around(entry.as_bytes());
        assert_eq!(trace.work.len(), 3, "{entry}");
        assert_eq!(trace.drops.total(), 0, "{entry}");
        assert!(trace.drops.read_over > 0, "{entry}");
    }
    let call = r#"{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"ts":0,"dur":NaN,"args":{"correlation":3}}"#;
    let trace = around(call.as_bytes());
    assert_eq!((trace.calls.len(), trace.drops.read_over), (1, 1));
}

#[test]
fn what_is_not_json_where_it_is_used_is_a_counted_drop() {
    let kernel = |field: &str| {
        format!(r#"{{"ph":"X","cat":"kernel","pid":0,"ts":150,"dur":1,"x":NaN,{field}}}"#)
    };
    for entry in [
        kernel("\"name\":\"a\tb\",\"tid\":7"),
        kernel("\"name\":NaN,\"tid\":7"),
        kernel("\"name\":\"k\",\"tid\":NaN"),
        kernel("\"name\":\"k\",\"args\":{\"stream\":\"\\q\"}"),
        kernel("\"name\":\"k\",\"args\":{\"correlation\":inf}"),
        r#"{"ph":"X","cat":"kernel","name":"k","ts":NaN,"dur":1}"#.to_owned(),
        r#"{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":-Infinity}"#.to_owned(),
        r#"{"dur":inf,"ph":"X","name":"k","ts":1,"cat":"gpu_memcpy"}"#.to_owned(),
        r#"{"ph":"X","cat":"user_annotation","name":"k","ts":nan,"dur":1}"#.to_owned(),
        r#"{"ph":"X","cat":"user_annotation","name":"a	b","ts":1,"dur":1}"#.to_owned(),
        r#"{"ph":"X","cat":"cuda_runtime","name":"x","ts":inf,"args":{"correlation":1}}"#
            .to_owned(),
    ] {
        let trace = around(entry.as_bytes());
        let drops = trace.drops;
        let found = (drops.of(DropReason::NotJson), drops.total(), drops.rounded, drops.read_over);
        assert_eq!(found, (1, 1, 0, 0), "{entry}");
        assert_eq!(good_kernels(&trace), 2, "{entry}");
    }
    // JSON, but no name.
    let trace = around(br#"{"ph":"X","cat":"kernel","name":7,"ts":150,"dur":1}"#);
    assert_eq!((trace.drops.of(DropReason::MissingField), trace.drops.read_over), (1, 0));
    let trace = around(b"NaN");
    assert_eq!((trace.drops.of(DropReason::NotAnEvent), trace.drops.read_over), (1, 0));
}

/// Any one byte of a skipped event made any other leaves both kernels, unless
/// it is one that the grammar stands on.
#[test]
fn one_bad_byte_in_a_skipped_event() {
    let event =
        br#"{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":120,"args":{"x":[1,-2.5e3],"y":true}}"#;
    let grammar = b"\"\\{}[]:,";
    let mut tried = 0;
    for at in 0..event.len() {
        for bad in [0u8, 1, b'\n', b'%', b'N', 0x7f, 0x80, 0xff] {
            // A skipped event could become one of a kind that is used.
            let category = 16..24;
            if grammar.contains(&event[at]) || category.contains(&at) {
                continue;
            }
            let mut entry = event.to_vec();
            entry[at] = bad;
            // Outside quotes a control byte parts two words.
            let quotes = event[..at].iter().filter(|b| **b == b'"').count();
            if quotes % 2 == 0 && bad <= b' ' {
                continue;
            }
            assert_eq!(good_kernels(&around(&entry)), 2, "{at} {bad}");
            tried += 1;
        }
    }
    assert!(tried > 200, "{tried}");
}

#[test]
fn lists_without_an_end_and_commas_before_one() {
    let event = kernel("good", 7, 0, 100, 2);
    for text in [
        format!("[{event}"),
        format!("[{event},"),
        format!("[\n{event},\n"),
        format!("[{event},]"),
        format!("{{\"traceEvents\":[{event},],}}"),
        format!("\u{feff}[{event}]"),
        format!("\u{feff}{{\"traceEvents\":[{event}]}}"),
    ] {
        let trace = bytes::read(text.clone()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(good_kernels(&trace), 1, "{text}");
        assert_eq!(trace.drops, Drops::default(), "{text}");
    }
    // An object that stops early is a file that is not complete.
    let cut = format!("{{\"traceEvents\":[{event},");
    let error = bytes::read(cut).expect_err("cut");
    assert!(error.to_string().contains("EOF"), "{error}");
}

fn build(events: &[String]) -> Plan {
    planned(&read(events), Timing::Ideal)
}

/// A recording whose times begin at 0, where its first step does.
#[test]
fn a_rebased_trace_keeps_its_first_step() {
    let plan = build(&[
        step(DECODE, 0, 20),
        launch(1, 0),
        launch(2, 10),
        kernel("first", 7, 1, 5, 10),
        kernel("second", 7, 2, 20, 10),
        step(DECODE, 40, 20),
        launch(3, 45),
        kernel("third", 7, 3, 50, 10),
    ]);
    assert_eq!(plan.steps.len(), 2);
    let spans: Vec<(Lane, Option<u32>, u64)> =
        (plan.spans.iter()).map(|span| (span.lane, span.step, span.span_ns)).collect();
    assert_eq!(spans, [(Lane::Decode, Some(0), 25_000), (Lane::Decode, Some(1), 10_000)]);
    assert_eq!(plan.notes, [""; 0]);
}

#[test]
fn launches_of_other_backends() {
    for category in [
        "xpu_runtime",
        "xpu_driver",
        "mtia_runtime",
        "privateuse1_runtime",
        "privateuse1_driver",
        "hip_runtime",
        "cuda_driver",
    ] {
        let call = launch(1, 10).replace("cuda_runtime", category);
        let plan = build(&[step(DECODE, 5, 20), call, kernel("k", 7, 1, 50, 10)]);
        assert_eq!(plan.spans[0].lane, Lane::Decode, "{category}");
        assert_eq!(plan.notes, [""; 0], "{category}");
    }
}

#[test]
fn a_correlation_that_is_a_float() {
    for (called, ran) in [("5.0", "5"), ("5", "5.0"), ("\"5\"", "5.00"), ("5e0", "5")] {
        let with = |event: String, id: &str| {
            event.replace("\"correlation\":5}", &format!("\"correlation\":{id}}}"))
        };
        let plan = build(&[
            step(DECODE, 5, 20),
            with(launch(5, 10), called),
            with(kernel("k", 7, 5, 50, 10), ran),
        ]);
        assert_eq!(plan.spans[0].lane, Lane::Decode, "{called} {ran}");
    }
    let half = document(&[step(DECODE, 5, 20), launch(5, 10), kernel("k", 7, 5, 50, 10)]);
    let half = half.replace("\"stream\":7,\"correlation\":5", "\"stream\":7,\"correlation\":5.5");
    let trace = bytes::read(half).expect("a trace");
    assert_eq!(trace.work[0].correlation, None);
}
