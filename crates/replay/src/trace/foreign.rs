// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names for what is not a trace, from its first bytes.

use std::path::Path;

use super::TraceError;
use super::members::Packing;

/// First bytes that this looks at: a tar archive says so at byte 257.
pub(super) const HEAD: usize = 512;

const UTF_16: (&str, &str) =
    ("text in UTF-16", "write it again as UTF-8 (iconv -f UTF-16 -t UTF-8)");
const TAR: (&str, &str) = ("a tar archive", "give the file in it (tar -x)");
const HTML: (&str, &str) =
    ("a web page (HTML)", "download the file itself, not the page that shows it");
const SQLITE: (&str, &str) = (
    "an SQLite database, such as Nsight Systems exports",
    "record with the PyTorch profiler and its export_chrome_trace",
);
const NSIGHT: (&str, &str) =
    ("a report of Nsight Systems", "record with the PyTorch profiler and its export_chrome_trace");
const PERFETTO: (&str, &str) =
    ("a Perfetto trace (protobuf)", "export it as JSON (traceconv json)");

/// What a file is by the bytes that it begins with, and what to do.
const BEGINS: [(&[u8], (&str, &str)); 9] = [
    (b"\xff\xfe", UTF_16),
    (b"\xfe\xff", UTF_16),
    (b"PK\x03\x04", ("a zip archive", "give the file in it (unzip)")),
    (b"PK\x05\x06", ("an empty zip archive", "give a trace")),
    (b"BZh", ("packed by bzip2", "unpack it (bunzip2)")),
    (b"\xfd7zXZ\0", ("packed by xz", "unpack it (unxz)")),
    (b"SQLite format 3\0", SQLITE),
    (b"version https://git-lfs", ("a Git LFS pointer", "fetch what it stands for (git lfs pull)")),
    (b"<", HTML),
];

/// The error for an unpacked file that begins with `head`, if that is known to
/// be no JSON; `packing` is what it was unpacked from.
pub(super) fn name(
    head: &[u8],
    packing: Option<Packing>,
    path: Option<&Path>,
) -> Option<TraceError> {
    let found = |(found, cure): (&str, &str)| {
        Some(TraceError::NotATrace { found: found.to_owned(), cure: cure.to_owned() })
    };
    if let (Some(outer), Some(inner)) = (packing, Packing::of(head)) {
        let (outer, inner) = (outer.name(), inner.name());
        return found((&format!("{inner} data in a {outer} file"), "unpack it once"));
    }
    // Both may begin as JSON does.
    if matches!(head, [b'{' | b'[', 0, ..] | [0, b'{' | b'[', ..]) {
        return found(UTF_16);
    }
    if head.get(257..).is_some_and(|rest| rest.starts_with(b"ustar")) {
        return found(TAR);
    }
    let text = head.trim_ascii_start();
    if matches!(text, [] | [b'{' | b'[', ..]) {
        return None;
    }
    let known = |begin: &[u8]| head.starts_with(begin) || begin == b"<" && text.starts_with(begin);
    if let Some((_, known)) = BEGINS.iter().find(|(begin, _)| known(begin)) {
        return found(*known);
    }
    let ends = |end: &str| path.is_some_and(|path| path.extension().is_some_and(|own| own == end));
    if ends("nsys-rep") || ends("qdrep") {
        return found(NSIGHT);
    }
    // A packet's tag is a line feed, too: text has no other control bytes.
    let binary = head.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace());
    if head.starts_with(b"\n") && binary {
        return found(PERFETTO);
    }
    None
}
