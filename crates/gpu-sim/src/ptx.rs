// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the simulator reads of a module's PTX text: the entries, the sizes of
//! their parameters, which parameter is a duration, and the sizes of variables.
//! Bodies are not run.

/// One `.entry` of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Size of each parameter in bytes, in order.
    pub(crate) params: Vec<usize>,
    /// Which parameter is a `.u64` whose name ends in `duration_ns`.
    pub(crate) duration: Option<usize>,
}

/// The entries of a PTX text in order, or `None` if it is no PTX.
pub(crate) fn parse(text: &str) -> Option<Vec<Entry>> {
    let text = without_comments(text);
    let version = text.trim_start().strip_prefix(".version")?;
    let number = version.split_whitespace().next()?;
    let (major, minor) = number.split_once('.')?;
    major.parse::<u32>().ok()?;
    minor.parse::<u32>().ok()?;
    if !text.contains(".target") {
        return None;
    }
    let mut entries = Vec::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(".entry") {
        rest = rest.get(at + ".entry".len()..)?.trim_start();
        let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at_checked(end)?;
        if name.is_empty() {
            return None;
        }
        rest = after.trim_start();
        let mut entry = Entry { name: name.to_owned(), params: Vec::new(), duration: None };
        if let Some(open) = rest.strip_prefix('(') {
            let (list, after) = open.split_once(')')?;
            for declaration in list.split(',').map(str::trim).filter(|d| !d.is_empty()) {
                let (name, size, is_u64) = parameter(declaration)?;
                if is_u64 && name.ends_with("duration_ns") && entry.duration.is_none() {
                    entry.duration = Some(entry.params.len());
                }
                entry.params.push(size);
            }
            rest = after;
        }
        entries.push(entry);
    }
    Some(entries)
}

/// Names and sizes in bytes of a text's variables (`.global`, `.const`), in order;
/// what they are initialised with is not read.
pub(crate) fn variables(text: &str) -> Vec<(String, usize)> {
    let text = without_comments(text);
    let mut found = Vec::new();
    // Of what stands outside of braces: a body names state spaces too.
    let (mut depth, mut begin) = (0_usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && matches!(c, ';' | '}') {
            found.extend(text.get(begin..at).and_then(variable));
            begin = at + 1;
        }
    }
    found
}

/// Of `.visible .global .align 4 .b8 table[64]`, also after lines of directives.
fn variable(statement: &str) -> Option<(String, usize)> {
    let declared = statement.split('=').next()?;
    let space =
        [".global", ".const"].iter().find_map(|space| declared.split_once(&format!("{space} ")));
    let (before, declaration) = space?;
    // An entry's parameter may be a pointer to that space.
    if before.contains('(') {
        return None;
    }
    let (name, size, _) = declared_as(declaration)?;
    Some((name.to_owned(), size))
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%')
}

/// Name, size in bytes and whether it is a plain `.u64`, of `.param .u64 n`,
/// `.param .align 8 .b8 n[64]`, `.param .u64 .ptr .global .align 1 n`.
fn parameter(declaration: &str) -> Option<(&str, usize, bool)> {
    declared_as(declaration.strip_prefix(".param")?)
}

fn declared_as(declaration: &str) -> Option<(&str, usize, bool)> {
    let words = declaration.split_whitespace();
    let mut element = None;
    let mut name = None;
    for word in words {
        match word.strip_prefix('.') {
            Some(directive) => {
                element = element.or_else(|| size_of(directive).map(|s| (s, directive)))
            }
            None => name = Some(word),
        }
    }
    let ((size, directive), name) = (element?, name?);
    match name.split_once('[') {
        None => Some((name, size, directive == "u64")),
        Some((name, count)) => {
            let count: usize = count.strip_suffix(']')?.trim().parse().ok()?;
            Some((name, size.checked_mul(count)?, false))
        }
    }
}

fn size_of(directive: &str) -> Option<usize> {
    match directive {
        "b128" => return Some(16),
        "f16x2" => return Some(4),
        _ => {}
    }
    let (kind, bits) = directive.split_at_checked(1)?;
    if !matches!(kind, "b" | "u" | "s" | "f") {
        return None;
    }
    match bits {
        "8" => Some(1),
        "16" => Some(2),
        "32" => Some(4),
        "64" => Some(8),
        _ => None,
    }
}

fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let (before, comment) = rest.split_at(at);
        out.push_str(before);
        if let Some(comment) = comment.strip_prefix("//") {
            rest = comment.find('\n').and_then(|end| comment.get(end..)).unwrap_or("");
        } else if let Some(comment) = comment.strip_prefix("/*") {
            out.push(' ');
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
        } else {
            out.push('/');
            rest = comment.get(1..).unwrap_or("");
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::{parse, variables};

    #[test]
    fn variables_are_those_outside_of_bodies() {
        let text = ".version 7.0
            .target sm_70
            .visible .global .align 4 .b8 table[64];
            .const .f64 scale = 2.5; // .global .u32 no;
            .visible .entry spin(.param .u64 .ptr .global .align 1 spin_param_0)
            { .reg .b32 %r<2>; ld.global.u32 %r1, [table]; { ret; } }
            .global .align 8 .u64 count = 7;";
        let found = variables(text);
        let found: Vec<_> = found.iter().map(|(name, bytes)| (&**name, *bytes)).collect();
        assert_eq!(found, [("table", 64), ("scale", 8), ("count", 8)]);
    }

    #[test]
    fn entries_parameters_and_durations_are_read() {
        let text = "// a comment with .entry in it
            .version 7.0
            .target sm_70 /* .entry no */
            .visible .entry plain { ret; }
            .visible .entry spin(
                .param .u64 .ptr .global .align 1 spin_param_0, // a pointer
                .param .align 8 .b8 spin_meta[24],
                .param .f32 scale,
                .param .u64 spin_duration_ns
            )
            .maxntid 1024, 1, 1
            { ret; }";
        let entries = parse(text).expect("PTX");
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].name, "plain");
        assert_eq!((entries[0].params.len(), entries[0].duration), (0, None));
        assert_eq!(entries[1].name, "spin");
        assert_eq!(entries[1].params, [8, 24, 4, 8]);
        assert_eq!(entries[1].duration, Some(3));
    }

    #[test]
    fn an_array_or_a_narrow_number_is_no_duration() {
        let text = ".version 8.4 .target sm_90 .entry k(.param .u32 a_duration_ns, .param .u64 b_duration_ns[2]) {}";
        let entries = parse(text).expect("PTX");
        assert_eq!(entries[0].params, [4, 16]);
        assert_eq!(entries[0].duration, None);
    }

    #[test]
    fn garbage_is_refused() {
        for text in [
            "",
            "garbage",
            ".version",
            ".version seven .target sm_70",
            ".version 7.0 but no target",
            ".version 7.0 .target sm_70 .entry (.param .u64 x) {}",
            ".version 7.0 .target sm_70 .entry k(.param .u64 x {}",
            ".version 7.0 .target sm_70 .entry k(.param x) {}",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
