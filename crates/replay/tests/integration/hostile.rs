// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bad traces: each ends in an error with a place, or in a counted drop.

use std::io::Write as _;

use crate::common::bytes::{gzip, is_one_line, read};
use crate::common::planned;
use flate2::Compression;
use flate2::write::GzEncoder;
use metrale_replay::plan::Timing;
use metrale_replay::trace::{self, DropReason as Reason, Limits, TraceError};

/// A trace of one good kernel and `events`.
fn with(events: &str) -> Vec<u8> {
    format!("{{\"traceEvents\":[\n{},\n{events}\n]}}", kernel("\"good\"", "100.5", "2.25")).into()
}

fn kernel(name: &str, ts: &str, dur: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"kernel","name":{name},"pid":0,"tid":7,"ts":{ts},"dur":{dur},"args":{{"stream":7}}}}"#
    )
}

#[test]
fn what_cannot_be_read_says_where() {
    let small = include_bytes!("../data/small.json");
    let mut torn = gzip(small);
    torn.truncate(torn.len() / 2);
    let mut flipped = gzip(small);
    // In the checksum: the text is whole, and only gzip can tell.
    let checksum = flipped.len() - 8;
    flipped[checksum] ^= 0x55;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("nothing", vec![], "is empty"),
        ("nothing, packed", gzip(b""), "is empty"),
        ("white space", b" \n ".to_vec(), "line 2 column 1: EOF"),
        ("not JSON", b"hello".to_vec(), "line 1 column 1: expected a trace"),
        ("cut short", small[..2_000].to_vec(), "line 16 column 36: EOF"),
        ("more after it", [&small[..], b"x"].concat(), "trailing characters"),
        ("a number", b"5".to_vec(), "expected a trace"),
        ("another object", b"{\"a\":1}".to_vec(), "no \"traceEvents\""),
        (
            "two lists",
            b"{\"traceEvents\":[],\"traceEvents\":[]}".to_vec(),
            "a second \"traceEvents\"",
        ),
        ("no list", b"{\"traceEvents\":{}}".to_vec(), "expected a list of events"),
        ("gzip, torn", torn, "damaged gzip"),
        ("gzip, flipped", flipped, "damaged gzip"),
        ("gzip, only its magic", vec![0x1f, 0x8b], "damaged gzip"),
        (
            "no GPU events",
            b"[{\"ph\":\"X\",\"cat\":\"cpu_op\"}]".to_vec(),
            "no GPU work among its 1 events",
        ),
        ("deep", deep.into_bytes(), "no GPU work among its 1 events"),
        (
            "nothing usable",
            format!("[{}]", kernel("\"k\"", "0", "1")).into_bytes(),
            "dropped: 1 stamp 0",
        ),
    ];
    for (name, bytes, expected) in cases {
        let error = read(bytes).expect_err(name).to_string();
        assert!(error.contains(expected) && is_one_line(&error), "{name}: {error}");
    }
}

#[test]
fn a_gzip_bomb_is_refused_early() {
    // Two hundred megabytes of one event from half of one. Packed
    // streams are joined, so that the test need not pack it all.
    let event = b"{\"ph\":\"X\",\"cat\":\"cpu_op\"},";
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&event.repeat(400_000)).expect("packed");
    let part = encoder.finish().expect("packed");
    let mut bomb = gzip(b"[");
    for _ in 0..20 {
        bomb.extend_from_slice(&part);
    }
    let limit = Limits::default().unpacked(bomb.len() as u64);
    assert!(limit < 208_000_000, "{limit}");
    // Stricter here, to keep the test short.
    let limits = Limits { floor: 1 << 20, ratio: 20, ..Limits::default() };
    let error = trace::read_bytes(bomb, &limits).expect_err("a bomb");
    let TraceError::TooBig { limit, packed, .. } = error else { panic!("{error}") };
    assert_eq!(limit, limits.unpacked(packed), "by what was read");
    assert!(error.to_string().contains("gzip bomb"), "{error}");
}

#[test]
fn what_is_dropped_is_counted() {
    let k = |ts, dur| kernel("\"k\"", ts, dur);
    let of = |fields: &str| format!(r#"{{"ph":"X","cat":"kernel",{fields}}}"#);
    let begin = r#"{"ph":"B","cat":"kernel","name":"k","ts":1}"#;
    let far = format!("{},{}", k("101", "1"), k("31536000000000", "1"));
    let cases: [(String, Reason, u64); 17] = [
        (of(r#""name":"k","dur":1"#), Reason::MissingField, 1),
        (of(r#""name":"k","ts":1"#), Reason::MissingField, 1),
        (of(r#""ts":1,"dur":1"#), Reason::MissingField, 1),
        (k("null", "1"), Reason::MissingField, 1),
        (begin.to_owned(), Reason::NotComplete, 1),
        (k("\"soon\"", "1"), Reason::BadStamp, 1),
        (k("[1]", "1"), Reason::BadStamp, 1),
        // 2^63, a number without end, and the last moment there is.
        (k("9223372036854775808", "1"), Reason::BadStamp, 1),
        (k("1e400", "1"), Reason::BadStamp, 1),
        (k("9223372036854775.807", "1"), Reason::BadStamp, 1),
        (k("0", "1"), Reason::ZeroStamp, 1),
        (k("\"0.000\"", "1"), Reason::ZeroStamp, 1),
        (k("90", "-0.001"), Reason::Negative, 1),
        (k("90", "3600000000.001"), Reason::Absurd, 1),
        (far, Reason::Absurd, 1),
        (of(r#""name":"k","ts":1,"dur":1,"ts":2"#), Reason::DuplicateKey, 1),
        ("null,1,-1,2.5,true,\"x\",[{}]".to_owned(), Reason::NotAnEvent, 7),
    ];
    for (events, reason, expected) in cases {
        let trace = read(with(&events)).expect(&events);
        let found = (trace.drops.of(reason), trace.drops.total());
        assert_eq!(found, (expected, expected), "{events}");
        let plan = planned(&trace, Timing::Honest);
        let is_told = plan.notes.iter().any(|note| note.contains("dropped"));
        assert!(is_told, "{events}: {:?}", plan.notes);
    }
}

#[test]
fn odd_but_legal() {
    let exponent = read(with(&kernel("\"k\"", "1.025e2", "25E-1"))).expect("exponents");
    assert_eq!((exponent.work[1].start_ns, exponent.work[1].duration_ns), (2_000, 2_500));
    let text = read(with(&kernel("\"k\"", "\"102.5\"", "\"2.5\""))).expect("texts");
    assert_eq!(text.work[1].start_ns, 2_000);
    let zero = read(with(&kernel("\"k\"", "102.5", "0"))).expect("no time");
    assert_eq!((zero.work.len(), zero.work[1].duration_ns), (2, 0));
    let rounded = read(with(&kernel("\"k\"", "102.5004", "1"))).expect("rounded");
    assert_eq!((rounded.work[1].start_ns, rounded.drops.rounded), (2_000, 1));
    let list = read(format!("[{}]", kernel("\"k\"", "1", "1"))).expect("a bare list");
    assert_eq!(list.work.len(), 1);
    let bare = read(with(r#"{"ts":101,"dur":1,"name":"k","cat":"kernel","ph":"X","args":null}"#));
    assert_eq!(bare.expect("no arguments").work.len(), 2);
    let packed =
        read([gzip(b"["), gzip(kernel("\"k\"", "1", "1").as_bytes()), gzip(b"]")].concat());
    assert_eq!(packed.expect("joined streams").work.len(), 1);
}

#[test]
fn names_of_any_bytes_stay_apart() {
    let long = |end: &str| format!("\"{}{end}\"", "n".repeat(70_000));
    let events = [
        kernel(r#""a\"b\\c\n""#, "101", "1"),
        kernel(&long("1"), "102", "1"),
        kernel(&long("2"), "103", "1"),
        kernel("\"\\u0000\\ud800\"", "104", "1"),
        kernel("\"INVALID1\"", "105", "1"),
        kernel("\"INVALID2\"", "106", "1"),
    ];
    let mut bytes = with(&events.join(","));
    for (word, byte) in [(b"INVALID1", 0xff), (b"INVALID2", 0xfe)] {
        let at = bytes.windows(8).position(|w| w == word).expect("there");
        bytes[at] = byte;
    }
    let trace = read(bytes).expect("legal enough");
    let plan = planned(&trace, Timing::Ideal);
    let mut names = plan.kernels.clone();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 7, "{:?}", plan.kernels.iter().map(|k| k.len()).collect::<Vec<_>>());
    assert!(plan.kernels.iter().any(|k| k == "a\"b\\c\n"));
}

#[test]
fn ids_that_two_processes_use_stay_apart() {
    let mut events = Vec::new();
    for (process, device) in [(1, 0), (2, 1)] {
        let base = 1000 * process;
        events.push(format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"step[DECODE bs={process}]","pid":{process},"tid":1,"ts":{base},"dur":50}}"#
        ));
        for id in 1..=3 {
            events.push(format!(
                r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":{process},"tid":1,"ts":{}.5,"dur":1,"args":{{"correlation":{id}}}}}"#,
                base + id
            ));
            events.push(format!(
                r#"{{"ph":"X","cat":"kernel","name":"k","pid":{device},"tid":7,"ts":{},"dur":1.5,"args":{{"device":{device},"stream":7,"correlation":{id}}}}}"#,
                base + 10 * id
            ));
        }
    }
    let trace = read(format!("[{}]", events.join(","))).expect("a good trace");
    let plan = planned(&trace, Timing::Ideal);
    assert_eq!(plan.graph_totals(), (6, 6));
    assert_eq!((plan.steps.len(), plan.spans.len()), (2, 2));
    assert_eq!(plan.devices, ["0", "1"]);
    for (step, span) in plan.spans.iter().enumerate() {
        assert_eq!(span.step, Some(step as u32));
        assert_eq!(span.span_ns, 21_500);
        assert_eq!(plan.streams[span.stream as usize].device, step as u32);
    }
}

#[test]
fn a_trace_without_steps_says_how_to_name_one() {
    let trace = read(with(&kernel("\"k\"", "103", "1"))).expect("a good trace");
    let plan = planned(&trace, Timing::Ideal);
    assert!(plan.steps.is_empty() && plan.spans.len() == 1);
    assert!(plan.notes.iter().any(|n| n.contains("--step-pattern")), "{:?}", plan.notes);
}

#[test]
fn files_that_are_none() {
    let limits = Limits::default();
    for path in ["tests/data/absent.json", "tests/data"] {
        let error = trace::read(path.as_ref(), &limits, &mut |_, _| {}).expect_err(path);
        assert!(matches!(error, TraceError::Io(_)), "{path}: {error}");
    }
}
