// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule `safety`: every `unsafe` block and impl has a `SAFETY:` comment directly
//! above, and every `pub unsafe fn` and `pub unsafe trait` a `# Safety` section.
//!
//! Clippy checks blocks where it builds them; this also sees code that another
//! target, feature or cfg would build.

use super::{
    Violation,
    tokens::{Token, reads},
    tree::File,
};

pub(super) fn check(file: &File) -> Vec<Violation> {
    let tokens = file.tokens();
    let lines: Vec<&str> = file.text.lines().collect();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if !token.word || token.text != "unsafe" {
            continue;
        }
        let next = tokens.get(at + 1).map_or("", |token| token.text.as_str());
        if matches!(next, "{" | "impl") {
            let what = if next == "{" { "block" } else { "impl" };
            if !above(&lines, token.line, statement_line(tokens, at)).contains("SAFETY:") {
                let message =
                    format!("unsafe {what} without a `// SAFETY:` comment directly above");
                found.push(file.at(token.line, "safety", message));
            }
        } else if let Some((start, kind)) = public(tokens, at)
            && !above(&lines, tokens[start].line, tokens[start].line).contains("# Safety")
        {
            let message = format!("`pub unsafe {kind}` without a `# Safety` section in its docs");
            found.push(file.at(token.line, "safety", message));
        }
    }
    found
}

/// The line where the statement starts that holds the token at `at`: the comment may
/// stand above `let x =` when the block is on a later line.
fn statement_line(tokens: &[Token], at: usize) -> usize {
    let mut start = at;
    for before in (0..at).rev() {
        match tokens[before].text.as_str() {
            ";" | "{" | "}" | "," | "(" | "[" => break,
            _ => start = before,
        }
    }
    tokens[start].line
}

/// Whether the `unsafe` at `at` belongs to a `pub` function or trait with a name:
/// where that starts, and which of the two it is. A function pointer type has no
/// name, and one in a macro's body takes its docs from the macro's caller.
fn public(tokens: &[Token], at: usize) -> Option<(usize, &'static str)> {
    let mut start = at.checked_sub(1)?;
    while start > 0 && matches!(tokens[start].text.as_str(), "const" | "async") {
        start -= 1;
    }
    if tokens[start].text != "pub" {
        return None;
    }
    let mut keyword = at + 1;
    if reads(tokens, keyword, &["extern"]) {
        // The ABI is a literal.
        keyword += 2;
    }
    let named = tokens.get(keyword + 1).is_some_and(|token| token.word);
    match tokens.get(keyword)?.text.as_str() {
        "fn" if named => Some((start, "fn")),
        "trait" if named => Some((start, "trait")),
        _ => None,
    }
}

/// The comment that ends directly above `line` or above `statement`, over attributes,
/// or that stands before the code on the line itself.
fn above(lines: &[&str], line: usize, statement: usize) -> String {
    let mut text = String::new();
    for start in [line, statement] {
        let before = lines[..start.saturating_sub(1).min(lines.len())]
            .iter()
            .rev();
        let comments = before
            .map(|line| line.trim())
            .take_while(|line| line.starts_with("//") || line.starts_with("#[") || *line == ")]")
            .filter(|line| line.starts_with("//"));
        for comment in comments {
            text.push_str(comment);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The only violation's line, 0 without one.
    fn line(text: &str) -> usize {
        let found = check(&File::new("a.rs", text));
        assert!(found.len() < 2, "{found:?}");
        found.first().map_or(0, |violation| violation.line)
    }

    #[test]
    fn fires_on_blocks_and_impls_without_a_reason() {
        assert_eq!(line("fn f() {\n    unsafe { g() }\n}"), 2);
        assert_eq!(line("unsafe impl Send for A {}"), 1);
        assert_eq!(line("// SAFETY: far away\n\nunsafe impl Send for A {}"), 3);
        assert_eq!(line("// safe\nunsafe impl Send for A {}"), 2);
        assert_eq!(line("macro_rules! m { () => { unsafe { g() } } }"), 1);
    }

    #[test]
    fn accepts_a_reason_directly_above() {
        assert_eq!(
            line("// SAFETY: one word,\n// no borrow\nunsafe impl Send for A {}"),
            0
        );
        assert_eq!(
            line("// SAFETY: x\n#[cfg(unix)]\nunsafe impl Send for A {}"),
            0
        );
        assert_eq!(
            line("fn f() {\n    // SAFETY: x\n    let a =\n        unsafe { g() };\n}"),
            0
        );
        assert_eq!(line("fn f() {\n    let a = \"unsafe {\";\n}"), 0);
        assert_eq!(line("#[unsafe(no_mangle)]\nfn f() {}"), 0);
    }

    #[test]
    fn fires_on_public_functions_without_a_contract() {
        assert_eq!(line("/// Does.\npub unsafe fn f() {}"), 2);
        assert_eq!(
            line("/// Does.\npub const unsafe extern \"C\" fn f() {}"),
            2
        );
        assert_eq!(line("/// Is.\npub unsafe trait T {}"), 2);
        assert_eq!(
            line("/// Does.\n///\n/// # Safety\n/// None.\npub unsafe fn f() {}"),
            0
        );
        assert_eq!(line("pub type F = unsafe extern \"C\" fn(u32) -> u32;"), 0);
        assert_eq!(line("struct S { pub f: unsafe extern \"C\" fn(u32) }"), 0);
        assert_eq!(line("pub(crate) unsafe fn f() {}"), 0);
    }
}
