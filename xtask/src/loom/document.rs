// SPDX-License-Identifier: MIT OR Apache-2.0
//! `docs/memory-ordering.md`: its tables are made from the comments at the code.

use crate::{
    cargo,
    error::{Context, Result, failed},
    mistakes::{of_models, text},
    source,
    tidy::tree::{File, Tree},
};

/// The document, from the project's root.
const PATH: &str = "docs/memory-ordering.md";
const SLOT: &str = "crates/telemetry/src/kernel/slot.rs";
const MODELS: &str = "crates/loom-tests/tests/models/";

/// Writes the tables anew.
pub(crate) fn write() -> Result<()> {
    let files = Tree::read(cargo::root())?.files;
    let problems = problems(&files);
    if !problems.is_empty() {
        return failed(problems.join("\n"));
    }
    let path = cargo::root().join(PATH);
    std::fs::write(&path, page(&files)).context(|| format!("write {}", path.display()))
}

/// The document with its tables as the sources have them.
fn page(files: &[File]) -> String {
    let states = text(files, SLOT).lines();
    let states = states.filter_map(|line| line.strip_prefix("//! |"));
    let states: String = states.map(|line| format!("|{line}\n")).collect();
    // A link of rustdoc, and nothing but brackets here.
    let states = states.replace("[`", "`").replace("`]", "`");
    let page = with_part(text(files, PATH), "states", &states);
    with_part(&page, "accesses", &accesses(files))
}

/// A table for each file, a row for each ordering.
fn accesses(files: &[File]) -> String {
    let (mut out, mut path) = (String::new(), String::new());
    for site in source::sites(files) {
        if site.path != path {
            path.clone_from(&site.path);
            out += &format!(
                "\n### `{path}`\n\n| function | access | ordering | partner, or why relaxed | model |\n\
                 |---|---|---|---|---|\n"
            );
        }
        let model = site.model.map_or(String::new(), |name| format!("`{name}`"));
        let (function, access, ordering) = (site.function, site.access, site.ordering);
        let why = site.why.trim_end_matches('.').replace('|', "\\|");
        out += &format!("| `{function}` | `{access}` | {ordering} | {why} | {model} |\n");
    }
    out
}

/// `page` with what stands between the marks of `part` replaced.
fn with_part(page: &str, part: &str, content: &str) -> String {
    let (begin, end) = (format!("<!-- {part} -->\n"), format!("<!-- /{part} -->"));
    let Some((before, rest)) = page.split_once(&begin) else {
        return page.to_owned();
    };
    let after = rest.split_once(&end).map_or("", |(_, after)| after);
    [before, &begin, content.trim_start(), &end, after].concat()
}

/// What the sources and the mistakes do not say and should.
fn problems(files: &[File]) -> Vec<String> {
    let models = models(files);
    let unknown = |model: &str| !models.iter().any(|known| known == model);
    let mut found = Vec::new();
    for site in source::sites(files) {
        let place =
            format!("{}: `{}`: {} {}", site.path, site.function, site.access, site.ordering);
        let problem = match (site.ordering.as_str(), &site.model) {
            ("Relaxed", None) => continue,
            ("Relaxed", Some(_)) => "nothing to weaken, so no model".to_owned(),
            (ordering, _) if site.why.is_empty() => {
                format!("say why and with whom above it: `// {ordering}: … (partner: …).`")
            }
            (_, None) => {
                "name the model that fails without it: `// Model: module::name`".to_owned()
            }
            (_, Some(model)) if unknown(model) => format!("there is no model {model}"),
            _ => continue,
        };
        found.push(format!("{place}: {problem}"));
    }
    let of_mistakes = of_models().filter(|mistake| unknown(mistake.test));
    found
        .extend(of_mistakes.map(|mistake| {
            format!("mistake {}: there is no model {}", mistake.name, mistake.test)
        }));
    found
}

/// Every model's name, as the test runner gives it.
fn models(files: &[File]) -> Vec<String> {
    let mut models = Vec::new();
    for file in files {
        let Some(module) = file.path.strip_prefix(MODELS) else {
            continue;
        };
        let module = module.trim_end_matches(".rs");
        let tests = file.text.split("\n#[test]\nfn ").skip(1);
        let names = tests.filter_map(|test| test.split('(').next());
        models.extend(names.map(|name| format!("{module}::{name}")));
    }
    models
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<File> {
        Tree::read(cargo::root()).expect("the tree").files
    }

    #[test]
    fn every_ordering_but_relaxed_names_its_partner_and_a_model_that_exists() {
        let (files, sites) = (files(), source::sites(&files()));
        assert!(sites.len() > 40, "only {} accesses seen", sites.len());
        assert!(models(&files).len() > 20, "{:?}", models(&files));
        let problems = problems(&files);
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    }

    #[test]
    fn the_document_is_as_it_is_generated() {
        let files = files();
        let page = page(&files);
        assert!(page.contains("| `Open` |") && page.contains("| Acquire |"), "{page}");
        let same = page == text(&files, PATH);
        assert!(same, "{PATH} is not up to date: `cargo xtask loom --page` writes it");
    }
}
