// SPDX-License-Identifier: MIT OR Apache-2.0
//! A source of the telemetry crate as tokens: its functions, where it names a
//! memory ordering, and edits of it.
//!
//! Comments are not tokens and a literal is one, so text fools nobody; and code is
//! told by file, function and tokens, so that lines may move and be laid out anew.

use std::ops::Range;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

use crate::tidy::tree::File;

/// The sources that the models run.
const SOURCES: &str = "crates/telemetry/src/";

#[derive(Debug)]
struct Token {
    /// As written; a delimiter is one of `( ) { } [ ]`.
    text: String,
    at: Range<usize>,
    /// For an opening delimiter, the index of its partner; else its own index.
    close: usize,
    word: bool,
}

/// One ordering of one atomic access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Site {
    /// From the project's root.
    pub(super) path: String,
    /// The function around it.
    pub(super) function: String,
    /// What is accessed and how, `word.load`; or `fence`.
    pub(super) access: String,
    /// The ordering's name.
    pub(super) ordering: String,
    /// What its comment says of it: `// Acquire: why (partner: …).`
    pub(super) why: String,
    /// The model that its comment names: `// Model: module::name`.
    pub(super) model: Option<String>,
    /// Where the ordering stands; for a fence, the whole call.
    at: Range<usize>,
}

impl Site {
    /// `text` with the ordering replaced by `to`, or its fence by nothing.
    pub(super) fn weakened(&self, text: &str, to: &str) -> String {
        let to = match self.access.as_str() {
            "fence" => "()".to_owned(),
            _ => format!("Ordering::{to}"),
        };
        [&text[..self.at.start], &to, &text[self.at.end..]].concat()
    }
}

/// The sites of all sources that ship.
pub(super) fn sites(files: &[File]) -> Vec<Site> {
    let ships = |path: &str| {
        path.starts_with(SOURCES) && !path.contains("/tests/") && !path.ends_with("/tests.rs")
    };
    let shipped = files.iter().filter(|file| ships(&file.path));
    shipped.flat_map(|file| of_file(&file.path, &file.text)).collect()
}

fn of_file(path: &str, text: &str) -> Vec<Site> {
    let tokens = read(text);
    let mut sites = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        while let Some(end) = test_item(&tokens, at) {
            at = end;
        }
        // An import or a type is no access.
        if let Some([_, _, _, name]) = reads(&tokens, at, &["Ordering", ":", ":"], 1)
            && let Some((call, access)) = access(&tokens, at)
        {
            let function = around(&tokens, at);
            let from = function.map_or(0, |index| tokens[index].at.start);
            let (why, model) = comment(&text[from..name.at.start], &name.text);
            let end = tokens[tokens[call + 1].close].at.end;
            sites.push(Site {
                path: path.to_owned(),
                function: function.map_or(String::new(), |index| tokens[index + 1].text.clone()),
                ordering: name.text.clone(),
                why,
                model,
                at: match access.as_str() {
                    "fence" => tokens[call].at.start..end,
                    _ => tokens[at].at.start..name.at.end,
                },
                access,
            });
        }
        at += 1;
    }
    sites
}

/// `text` with the code `from`, which function `name` holds once (the whole text, where
/// that is empty), replaced by `to`; else how often it does.
pub(crate) fn edited(text: &str, name: &str, from: &str, to: &str) -> Result<String, usize> {
    let (tokens, wanted) = (read(text), read(from));
    let wanted: Vec<&str> = wanted.iter().map(|token| token.text.as_str()).collect();
    let is_here = |at: &usize| {
        let is_it = |index: usize| tokens[index + 1].text == name;
        (name.is_empty() || around(&tokens, *at).is_some_and(is_it))
            && reads(&tokens, *at, &wanted, 0).is_some()
    };
    let found: Vec<usize> = (0..tokens.len()).filter(is_here).collect();
    let [at] = found[..] else {
        return Err(found.len());
    };
    let end = tokens[at + wanted.len() - 1].at.end;
    Ok([&text[..tokens[at].at.start], to, &text[end..]].concat())
}

fn read(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    // The compiler says where a source is not Rust; an edit's code must close what
    // it opens, or it is found nowhere.
    if let Ok(stream) = text.parse() {
        flatten(stream, &mut tokens);
    }
    tokens
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let push = |tokens: &mut Vec<Token>, text: String, span: Span, word| {
        let (at, close) = (span.byte_range(), tokens.len());
        tokens.push(Token { text, at, close, word });
    };
    for tree in stream {
        let word = matches!(tree, TokenTree::Ident(_));
        let TokenTree::Group(group) = tree else {
            push(tokens, tree.to_string(), tree.span(), word);
            continue;
        };
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => ("", ""),
        };
        let at = tokens.len();
        push(tokens, open.to_owned(), group.span_open(), false);
        flatten(group.stream(), tokens);
        tokens[at].close = tokens.len();
        push(tokens, close.to_owned(), group.span_close(), false);
    }
}

/// The tokens from `at` on, if they read `pattern`, and `more` after them.
fn reads<'a>(tokens: &'a [Token], at: usize, pattern: &[&str], more: usize) -> Option<&'a [Token]> {
    let found = tokens.get(at..at + pattern.len() + more)?;
    let same = |(token, text): (&Token, &&str)| token.text == **text;
    let is_it = !pattern.is_empty() && found.iter().zip(pattern).all(same);
    is_it.then_some(found)
}

/// One past the item at `at`, if its attribute says that only tests build it.
fn test_item(tokens: &[Token], at: usize) -> Option<usize> {
    reads(tokens, at, &["#", "["], 0)?;
    let attribute = &tokens[at + 1..tokens[at + 1].close];
    let has = |word: &str| attribute.iter().any(|token| token.text == word);
    if !has("test") || has("any") || has("not") && !has("all") {
        return None;
    }
    let mut end = tokens[at + 1].close + 1;
    while !matches!(tokens.get(end)?.text.as_str(), "{" | ";") {
        end = tokens[end].close + 1;
    }
    Some(tokens[end].close + 1)
}

/// The call whose argument the token at `at` is: its name's index, and what it
/// accesses and how.
fn access(tokens: &[Token], at: usize) -> Option<(usize, String)> {
    let mut before = (0..at).rev();
    let open = before.find(|&open| tokens[open].text == "(" && tokens[open].close > at)?;
    let method = open.checked_sub(1).filter(|&method| tokens[method].word)?;
    let call = &tokens[method].text;
    if method < 2 || tokens[method - 1].text != "." {
        return Some((method, call.clone()));
    }
    let mut object = method - 2;
    if tokens[object].text == "]" {
        let mut before = (0..object).rev();
        object = before.find(|&open| tokens[open].close == object)?;
        object = object.checked_sub(1)?;
    }
    let access = match tokens[object].text.as_str() {
        "self" => call.clone(),
        name if tokens[object].word => format!("{name}.{call}"),
        field => format!("self.{field}.{call}"),
    };
    Some((method, access))
}

/// The innermost function around the token at `at`: the index of its `fn`.
fn around(tokens: &[Token], at: usize) -> Option<usize> {
    let has = |&start: &usize| {
        if tokens[start].text != "fn" || !tokens[start + 1].word {
            return false;
        }
        let mut body = start;
        while body < at && !matches!(tokens[body].text.as_str(), "{" | ";") {
            body = tokens[body].close + 1;
        }
        body < at && tokens[body].close > at
    };
    (0..at).rev().find(has)
}

/// What the last comment in `code` says that begins with the ordering's name, and
/// the model that it names.
fn comment(code: &str, ordering: &str) -> (String, Option<String>) {
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let first = format!("// {ordering}: ");
    let Some(start) = lines.iter().rposition(|line| line.starts_with(&first)) else {
        return (String::new(), None);
    };
    let (mut why, mut model) = (Vec::new(), None);
    for line in &lines[start..] {
        let Some(line) = line.strip_prefix("// ") else {
            break;
        };
        match line.strip_prefix("Model: ") {
            Some(name) => model = Some(name.trim_end_matches('.').to_owned()),
            None => why.push(line),
        }
    }
    let why = why.join(" ");
    (why[first.len() - 3..].to_owned(), model)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        use std::sync::atomic::Ordering::Relaxed;
        impl A {
            fn one(&self, x: &mut [u64; N]) -> u64 {
                // Acquire: it is there
                // (partner: `two`).
                // Model: a::b.
                self.keys[self.at(0)].load(Ordering::Acquire)
            }
            fn two(&self, a: Ordering) {
                fence(Ordering::Release); // Ordering::SeqCst
                self.0.fetch_add(1, Ordering::Relaxed);
                self.exchange(x, f(y), Ordering::AcqRel);
                self.w.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
            }
        }
        #[cfg(all(test, not(x)))] mod tests { fn t() { a.load(Ordering::Acquire); } }
        #[test] fn t() { a.load(Ordering::Acquire); }
        #[cfg(not(test))] const fn three() { a.store(Ordering::Release) }";

    #[test]
    fn names_function_access_and_ordering() {
        let found = of_file("a.rs", TEXT);
        let parts: Vec<_> = found
            .iter()
            .map(|site| (&*site.function, &*site.access, &*site.ordering, &TEXT[site.at.clone()]))
            .collect();
        assert_eq!(
            parts,
            [
                ("one", "keys.load", "Acquire", "Ordering::Acquire"),
                ("two", "fence", "Release", "fence(Ordering::Release)"),
                ("two", "self.0.fetch_add", "Relaxed", "Ordering::Relaxed"),
                ("two", "exchange", "AcqRel", "Ordering::AcqRel"),
                ("two", "w.compare_exchange", "AcqRel", "Ordering::AcqRel"),
                ("two", "w.compare_exchange", "Acquire", "Ordering::Acquire"),
                ("three", "a.store", "Release", "Ordering::Release"),
            ]
        );
        assert_eq!(found[0].why, "it is there (partner: `two`).");
        assert_eq!(found[0].model.as_deref(), Some("a::b"));
        assert_eq!((found[1].why.as_str(), &found[5].model), ("", &None));
    }

    #[test]
    fn each_ordering_is_weakened_by_itself() {
        let found = of_file("a.rs", TEXT);
        let with = |from: &str, to: &str| TEXT.replacen(from, to, 1);
        let weak = found[1].weakened(TEXT, "nothing");
        assert_eq!(weak, with("fence(Ordering::Release)", "()"));
        let weak = found[4].weakened(TEXT, "Acquire");
        assert_eq!(weak, with("1, Ordering::AcqRel", "1, Ordering::Acquire"));
    }

    #[test]
    fn tests_and_other_crates_have_no_sites() {
        let text = "fn f() { a.load(Ordering::Acquire); }";
        for path in ["kernel/tests/a.rs", "kernel/tests.rs", "../tests/a.rs"] {
            let path = format!("{SOURCES}{path}").replace("src/../", "");
            assert_eq!(sites(&[File::new(&path, text)]), []);
        }
        assert_eq!(sites(&[File::new("crates/telemetry/src/a.rs", text)]).len(), 1);
    }

    #[test]
    fn code_is_found_in_its_function_however_it_is_laid_out() {
        let text = "fn a() { x.f(1,\n 2); } fn b() { x.f(1, 2); x.g(); x.g(); }";
        let to = |name, from| edited(text, name, from, "y()");
        let expected = "fn a() { y(); } fn b() { x.f(1, 2); x.g(); x.g(); }";
        assert_eq!(to("a", "x.f( 1, 2 )"), Ok(expected.to_owned()));
        assert_eq!(to("a", "x.g()"), Err(0));
        assert_eq!(to("b", "x.g()"), Err(2));
    }
}
