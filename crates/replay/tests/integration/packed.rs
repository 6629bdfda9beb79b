// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files as they come: packed, padded, through a pipe, or no trace at all.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::common::bytes::{gzip, is_one_line, read};
use metrale_replay::trace::{self, Limits};

const SMALL: &[u8] = include_bytes!("../data/small.json");
/// By the reference implementation, with a checksum.
const ZSTD: &[u8] = include_bytes!("../data/small.json.zst");

/// A zstd frame of one stored block, by the format's page.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let size = u32::try_from(bytes.len()).expect("small");
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    frame.extend(size.to_le_bytes());
    frame.extend(&(size << 3 | 1).to_le_bytes()[..3]);
    frame.extend(bytes);
    frame
}

/// A frame that a decoder passes over.
fn skippable(bytes: &[u8]) -> Vec<u8> {
    let size = u32::try_from(bytes.len()).expect("small");
    let mut frame = vec![0x5a, 0x2a, 0x4d, 0x18];
    frame.extend(size.to_le_bytes());
    frame.extend(bytes);
    frame
}

#[test]
fn what_is_packed_reads_as_what_is_not() {
    let plain = read(SMALL).expect("a trace");
    let (first, second) = SMALL.split_at(1_000);
    let cases = [
        ("gzip", gzip(SMALL)),
        ("gzip, joined", [gzip(first), gzip(second)].concat()),
        ("gzip, padded", [gzip(SMALL), vec![0; 100_000]].concat()),
        ("zstd", ZSTD.to_vec()),
        ("zstd, padded", [ZSTD, &[0; 1_000]].concat()),
        ("zstd, joined", [stored(first), stored(second)].concat()),
        (
            "zstd, with more to skip",
            [
                skippable(b"x"),
                stored(first),
                skippable(&[0; 70_000]),
                stored(second),
                skippable(b""),
            ]
            .concat(),
        ),
        ("gzip, marked", gzip(&[b"\xef\xbb\xbf", SMALL].concat())),
    ];
    for (name, bytes) in cases {
        let trace = read(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(trace.work, plain.work, "{name}");
        assert_eq!((trace.events, trace.drops), (plain.events, plain.drops), "{name}");
    }
}

#[test]
fn damage_is_told() {
    let flip = |bytes: &[u8], from_end: usize| {
        let mut bytes = bytes.to_vec();
        let at = bytes.len() - from_end;
        bytes[at] ^= 0x55;
        bytes
    };
    let cases = [
        ("zstd, its checksum", flip(ZSTD, 1), "damaged zstd data: its checksum"),
        ("zstd, its text", flip(ZSTD, 100), "damaged zstd"),
        ("zstd, torn", ZSTD[..ZSTD.len() / 2].to_vec(), "damaged zstd"),
        ("zstd, its begin", ZSTD[..4].to_vec(), "damaged zstd"),
        ("zstd, skipping past its end", skippable(b"abc")[..10].to_vec(), "damaged zstd"),
        ("gzip, more than zeros", [gzip(SMALL), vec![0, 0, 1]].concat(), "more after zeros"),
        ("gzip, then text", [gzip(SMALL), b"x".to_vec()].concat(), "damaged gzip"),
        ("nothing, packed", stored(b""), "is empty"),
    ];
    for (name, bytes, expected) in cases {
        let error = read(bytes).expect_err(name).to_string();
        assert!(error.contains(expected) && is_one_line(&error), "{name}: {error}");
    }
}

/// One block of the same byte, 128 KiB of it from four bytes, again and again.
#[test]
fn a_zstd_bomb_is_refused_early() {
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x38];
    for _ in 0..10_000 {
        bomb.extend(&(128u32 << 10 << 3 | 1 << 1).to_le_bytes()[..3]);
        bomb.push(b' ');
    }
    let error = read(bomb).expect_err("a bomb").to_string();
    assert!(error.contains("zstd bomb"), "{error}");
}

#[test]
fn what_is_no_trace_is_named() {
    let wide = |units: Vec<[u8; 2]>, mark: &[u8]| [mark, &units.concat()].concat();
    let text = "{\"traceEvents\":[]}".encode_utf16();
    let little: Vec<_> = text.clone().map(u16::to_le_bytes).collect();
    let big: Vec<_> = text.map(u16::to_be_bytes).collect();
    let mut tar = b"trace.json".to_vec();
    tar.resize(257, 0);
    tar.extend(b"ustar\x0000");
    tar.resize(1024, 0);
    let lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (wide(little.clone(), b"\xff\xfe"), "text in UTF-16"),
        (wide(big.clone(), b"\xfe\xff"), "text in UTF-16"),
        (wide(little, b""), "text in UTF-16"),
        (wide(big, b""), "text in UTF-16"),
        (b"PK\x03\x04\x14\x00\x00\x00\x08\x00".to_vec(), "a zip archive"),
        (b"BZh91AY&SY\x2e\xd5".to_vec(), "packed by bzip2"),
        (b"\xfd7zXZ\x00\x00\x04\xe6\xd6".to_vec(), "packed by xz"),
        (b"SQLite format 3\x00\x10\x00\x01\x01".to_vec(), "an SQLite database"),
        (lfs.into(), "a Git LFS pointer"),
        (b"\n\n<!DOCTYPE html>\n<html>".to_vec(), "a web page"),
        (b"<html><head>".to_vec(), "a web page"),
        (
            b"\x0a\x0e\x08\xd2\x01\x42\x04\x08\x06\x10\x01\x50\x01\x1a\x02".to_vec(),
            "a Perfetto trace",
        ),
        (gzip(&gzip(SMALL)), "gzip data in a gzip file"),
        (gzip(ZSTD), "zstd data in a gzip file"),
        (stored(&gzip(SMALL)), "gzip data in a zstd file"),
        (gzip(&tar), "a tar archive"),
        (tar, "a tar archive"),
    ];
    for (bytes, expected) in cases {
        let error = read(bytes).expect_err(expected).to_string();
        let begin = format!("this is {expected}");
        assert!(error.starts_with(&begin), "{expected}: {error}");
        assert!(error.contains(", a Kineto JSON is needed: "), "{error}");
        assert!(is_one_line(&error), "{error}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("server.nsys-rep");
    std::fs::write(&path, b"\x1a\x2b\x3c\x4d").expect("written");
    let error = trace::read(&path, &Limits::default(), &mut |_, _| {}).expect_err("a report");
    assert!(error.to_string().starts_with("this is a report of Nsight"), "{error}");
    // A name says nothing of a trace.
    std::fs::write(&path, SMALL).expect("written");
    trace::read(&path, &Limits::default(), &mut |_, _| {}).expect("a trace");
}

/// The program, given `bytes` through a pipe.
fn piped(path: &str, bytes: &[u8]) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_metrale-replay"))
        .args(["--driver", "sim", "--every", "1", "--trace", path])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("run");
    let mut pipe = child.stdin.take().expect("a pipe");
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || drop(pipe.write_all(&bytes)));
    let output = child.wait_with_output().expect("ran");
    writer.join().expect("written");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// More packed bytes than fit the limit of a file without a length: 30 MB of
/// text from a pipe whose length reads 0.
#[test]
fn a_pipe_has_no_length() {
    crate::common::needs_simulator();
    let filler = r#"{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":1,"dur":1},"#.repeat(600_000);
    let text = String::from_utf8(SMALL.to_vec()).expect("UTF-8");
    let text = text.replacen("\"traceEvents\": [", &format!("\"traceEvents\": [{filler}"), 1);
    assert!(text.len() > 30_000_000);
    let packed = gzip(text.as_bytes());
    for path in ["-", "/dev/stdin"] {
        let (code, page, error) = piped(path, &packed);
        assert_eq!((code, error.as_str()), (Some(0), ""), "{path}");
        assert!(page.contains("steps     3, every one armed"), "{path}: {page}");
    }
    let (_, page, _) = piped("-", ZSTD);
    assert!(page.starts_with("replay    standard input\n"), "{page}");
    let (code, page, error) = piped("-", b"");
    assert_eq!((code, page.as_str()), (Some(2), ""));
    assert!(error.contains("standard input: is empty"), "{error}");
}
