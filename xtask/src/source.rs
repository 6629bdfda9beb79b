// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rust sources as syntax: their functions, where they name a memory ordering, and edits
//! of them. Code is told by file, function and text without its layout, so that lines may
//! move and be laid out anew.

use std::ops::Range;

use syn::{
    Attribute, Block, Expr, ExprCall, ExprMethodCall, ImplItemFn, ItemFn, ItemMod, Macro, Member,
    Meta, Signature, punctuated::Punctuated, token::Comma, visit, visit::Visit,
};

use crate::tidy::tree::File;

/// The sources that the models run.
const SOURCES: &str = "crates/telemetry/src/";

/// One ordering of one atomic access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    /// From the project's root.
    pub(crate) path: String,
    /// The function around it.
    pub(crate) function: String,
    /// What is accessed and how, `word.load`; or `fence`.
    pub(crate) access: String,
    /// The ordering's name.
    pub(crate) ordering: String,
    /// What its comment says of it: `// Acquire: why (partner: …).`
    pub(crate) why: String,
    /// The model that its comment names: `// Model: module::name`.
    pub(crate) model: Option<String>,
    /// Where the ordering stands; for a fence, the whole call.
    at: Range<usize>,
}

impl Site {
    /// `text` with the ordering replaced by `to`, or its fence by nothing.
    pub(crate) fn weakened(&self, text: &str, to: &str) -> String {
        let to = match self.access.as_str() {
            "fence" => "()".to_owned(),
            _ => format!("Ordering::{to}"),
        };
        [&text[..self.at.start], &to, &text[self.at.end..]].concat()
    }
}

/// The sites of all sources that ship.
pub(crate) fn sites(files: &[File]) -> Vec<Site> {
    let ships = |path: &str| {
        path.starts_with(SOURCES) && !path.contains("/tests/") && !path.ends_with("/tests.rs")
    };
    let shipped = files.iter().filter(|file| ships(&file.path));
    shipped.flat_map(|file| of_file(&file.path, &file.text)).collect()
}

fn of_file(path: &str, text: &str) -> Vec<Site> {
    let mut sites = read(path, text).sites;
    sites.sort_by_key(|site| site.at.start);
    sites
}

/// `text` with the code `from`, which function `name` holds once (the whole text, where
/// that is empty), replaced by `to`; else how often it does.
pub(crate) fn edited(text: &str, name: &str, from: &str, to: &str) -> Result<String, usize> {
    let functions = read("", text).functions;
    let is_here = |at: &Range<usize>| {
        let is_in = |(other, around): &(String, Range<usize>)| {
            other == name && around.start <= at.start && at.end <= around.end
        };
        name.is_empty() || functions.iter().any(is_in)
    };
    let (code, wanted) = (without_layout(text), without_layout(from));
    let same = code.windows(wanted.len().max(1)).filter(|window| {
        window.iter().map(|(_, byte)| byte).eq(wanted.iter().map(|(_, byte)| byte))
    });
    let found: Vec<Range<usize>> =
        same.map(|window| window[0].0..window[window.len() - 1].0 + 1).filter(is_here).collect();
    match &found[..] {
        [at] => Ok([&text[..at.start], to, &text[at.end..]].concat()),
        _ => Err(found.len()),
    }
}

/// The bytes of code with their places, without blanks and lines of comment.
fn without_layout(text: &str) -> Vec<(usize, u8)> {
    let mut at = 0;
    let lines = text.split_inclusive('\n').map(|line| {
        at += line.len();
        (at - line.len(), line)
    });
    let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
    let bytes = code.flat_map(|(start, line)| (start..).zip(line.bytes()));
    bytes.filter(|(_, byte)| !byte.is_ascii_whitespace()).collect()
}

/// What a source has outside of its tests.
struct Found<'t> {
    path: &'t str,
    text: &'t str,
    /// Each function, from its `fn` to its end.
    functions: Vec<(String, Range<usize>)>,
    /// Those around what is being read, the innermost last.
    around: Vec<usize>,
    sites: Vec<Site>,
}

fn read<'t>(path: &'t str, text: &'t str) -> Found<'t> {
    let (functions, around, sites) = Default::default();
    let mut found = Found { path, text, functions, around, sites };
    // The compiler says where a source is not Rust.
    if let Ok(file) = syn::parse_file(text) {
        found.visit_file(&file);
    }
    found
}

impl Found<'_> {
    fn function(&mut self, signature: &Signature, block: &Block, body: impl FnOnce(&mut Self)) {
        let start = signature.fn_token.span.byte_range().start;
        let end = block.brace_token.span.close().byte_range().end;
        self.around.push(self.functions.len());
        self.functions.push((signature.ident.to_string(), start..end));
        body(self);
        self.around.pop();
    }

    /// The orderings among a call's arguments; `whole` is the call, where that is what
    /// is weakened.
    fn call(&mut self, what: &str, args: &Punctuated<Expr, Comma>, whole: Option<Range<usize>>) {
        for arg in args {
            let Expr::Path(path) = arg else {
                continue;
            };
            let names: Vec<_> = path.path.segments.iter().map(|segment| &segment.ident).collect();
            if let [kind, ordering] = names[..]
                && kind == "Ordering"
            {
                let own = kind.span().byte_range().start..ordering.span().byte_range().end;
                let around = self.around.last().map(|at| &self.functions[*at]);
                let (function, from) =
                    around.map_or((String::new(), 0), |(name, at)| (name.clone(), at.start));
                let ordering = ordering.to_string();
                let (why, model) = comment(&self.text[from..own.start], &ordering);
                let (path, access) = (self.path.to_owned(), what.to_owned());
                let at = whole.clone().unwrap_or(own);
                self.sites.push(Site { path, function, access, ordering, why, model, at });
            }
        }
    }
}

impl<'ast> Visit<'ast> for Found<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.sig, &item.block, |own| visit::visit_item_fn(own, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.sig, &item.block, |own| visit::visit_impl_item_fn(own, item));
    }

    /// What a macro is given is read as arguments or as statements; what is neither is no code.
    fn visit_macro(&mut self, call: &'ast Macro) {
        if let Ok(args) = call.parse_body_with(Punctuated::<Expr, Comma>::parse_terminated) {
            args.iter().for_each(|arg| self.visit_expr(arg));
        } else if let Ok(statements) = call.parse_body_with(Block::parse_within) {
            statements.iter().for_each(|statement| self.visit_stmt(statement));
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let what = match accessed(&call.receiver) {
            Some(object) => format!("{object}.{}", call.method),
            None => call.method.to_string(),
        };
        self.call(&what, &call.args, None);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Expr::Path(path) = &*call.func
            && let Some(name) = path.path.segments.last().map(|segment| &segment.ident)
        {
            let end = call.paren_token.span.close().byte_range().end;
            let whole = (name == "fence").then(|| name.span().byte_range().start..end);
            self.call(&name.to_string(), &call.args, whole);
        }
        visit::visit_expr_call(self, call);
    }
}

/// The name of what a method is called on: a field, an element of one, a variable.
fn accessed(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Index(index) => accessed(&index.expr),
        Expr::Field(field) => Some(match &field.member {
            Member::Named(name) => name.to_string(),
            Member::Unnamed(place) => format!("self.{}", place.index),
        }),
        Expr::Path(path) => {
            path.path.get_ident().filter(|name| *name != "self").map(ToString::to_string)
        }
        _ => None,
    }
}

/// Whether a module's attributes say that only tests build it.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition.starts_with("all (test")
        }
        _ => false,
    })
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
            const_fn! { pub const fn four(&self) { check!(self.v.load(Ordering::Acquire), 1) } }
        }
        #[cfg(all(test, not(x)))] mod tests { fn t() { a.load(Ordering::Acquire); } }
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
                ("four", "v.load", "Acquire", "Ordering::Acquire"),
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
