// SPDX-License-Identifier: MIT OR Apache-2.0
//! The committed header: what it declares is what the library has, in the version
//! that it says. That it is made of the sources, `cargo xtask api` checks.

use crate::cc::{built, cc, file, has, told};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// The version, and the declarations that it stands for.
const DECLARED: (u32, u64) = (2, 0xba48_416a_a05f_1530);

fn header() -> String {
    fs::read_to_string(file("include/metrale.h")).expect("the header")
}

/// The header without comments and line breaks.
fn declarations() -> String {
    let lines = header();
    let code = lines.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words: Vec<&str> = code.flat_map(str::split_whitespace).collect();
    words.join(" ")
}

/// FNV-1a: the same on every machine and in every version of Rust.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[test]
fn a_version_keeps_what_it_declares() {
    let now = (metrale::ABI_VERSION, fingerprint(&declarations()));
    assert_eq!(
        now, DECLARED,
        "what metrale.h declares has changed: where anything that was there is other now, raise \
         ABI_VERSION; then write both numbers here: {now:#x?}"
    );
}

#[test]
fn the_library_exports_what_the_header_declares() {
    let declarations = declarations();
    let declared: BTreeSet<&str> = declarations
        .match_indices("metrale_")
        .filter_map(|(at, _)| declarations[at..].split_once('('))
        .map(|(name, _)| name)
        .filter(|name| name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()))
        .collect();
    let symbols = told(
        Command::new("nm")
            .args(["-D", "--defined-only", "--format=just-symbols"])
            .arg(built().join("libmetrale.so")),
    );
    assert_eq!(symbols.lines().collect::<BTreeSet<_>>(), declared);
}

#[test]
fn each_function_says_which_threads_may_call_it() {
    let header = header();
    let (_, functions) = header.split_once("extern \"C\" {\n#endif").expect("functions");
    let functions: Vec<&str> =
        functions.split("\n\n").filter(|text| text.contains("/// ")).collect();
    assert!(functions.len() > 30, "{functions:#?}");
    for function in functions {
        assert!(function.contains("\n/// Any thread"), "{function}");
    }
}

#[test]
fn it_stands_alone_in_c_and_in_cpp() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("alone.c");
    let text = "#include <metrale.h>\nint main(void) { return (int)metrale_panics(); }\n";
    fs::write(&source, text).expect("a source");
    let object = folder.path().join("alone.o");
    for (program, standard) in [("cc", "-std=c99"), ("cc", "-std=c17"), ("c++", "-std=c++11")] {
        if has(program) {
            let mut compiler = cc(program, standard);
            told(compiler.arg("-c").arg(&source).arg("-o").arg(&object));
        }
    }
}

/// The layout that a program was compiled with is the library's.
#[test]
fn structures_have_one_layout() {
    macro_rules! sizes {
        ($($c:ident = $rust:ident),*) => {
            [$((stringify!($c), size_of::<metrale::$rust>(), align_of::<metrale::$rust>())),*]
        };
    }
    let sizes = sizes!(
        metrale_config = Config,
        metrale_twins = Twins,
        metrale_graph = Graph,
        metrale_health = Health,
        metrale_step = Step,
        metrale_lane = Lane,
        metrale_cursor = Cursor,
        metrale_lane_record = LaneRecord,
        metrale_step_record = StepRecord,
        metrale_status = Status
    );
    let checks = sizes.map(|(name, size, align)| {
        format!(
            "_Static_assert(sizeof({name}) == {size} && _Alignof({name}) == {align}, \"{name}\");\n"
        )
    });
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("layout.c");
    fs::write(&source, format!("#include <metrale.h>\n{}", checks.concat())).expect("a source");
    told(cc("cc", "-std=c11").arg("-fsyntax-only").arg(&source));
}
