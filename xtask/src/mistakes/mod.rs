// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the checks: the sources with one change each, in a scratch copy, which a
//! model or a test must catch. A set of models that lets a classic mistake pass proves
//! nothing. The product has no hooks for this: a variant is the shipped text with a change.

mod instruments;
mod orderings;
mod ring;
mod scratch;
mod steps;
mod twins;

use std::time::Instant;

use crate::{
    error::{Error, Result, failed},
    source,
    tidy::tree::File,
};

pub(crate) use orderings::run as weaken;
pub(crate) use twins::run as of_twins;

/// A mistake, and the model or test that is expected to catch it.
#[derive(Debug)]
pub(crate) struct Mistake {
    pub(crate) name: &'static str,
    pub(crate) test: &'static str,
    edits: &'static [Edit],
}

/// A file, a function in it, code that it holds once (in any layout), and what stands
/// there instead.
type Edit = (&'static str, &'static str, &'static str, &'static str);

const fn mistake(name: &'static str, test: &'static str, edits: &'static [Edit]) -> Mistake {
    Mistake { name, test, edits }
}

/// The mistakes that the models catch.
pub(crate) fn of_models() -> impl Iterator<Item = &'static Mistake> {
    [ring::ALL, steps::ALL, instruments::ALL].into_iter().flatten()
}

/// The sources with one change.
struct Variant {
    name: String,
    /// Changed files, by path, with their whole text.
    files: Vec<(String, String)>,
    /// What is expected to catch it, if that is named.
    test: Option<String>,
}

impl Mistake {
    /// `files` with the mistake made.
    fn made(&self, files: &[File]) -> Result<Variant> {
        let mut changed: Vec<(String, String)> = Vec::new();
        for (path, function, from, to) in self.edits {
            let at = changed.iter().position(|(other, _)| other == path);
            let before = at.map_or_else(|| text(files, path).to_owned(), |at| changed.remove(at).1);
            let after = source::edited(&before, function, from, to).map_err(|found| {
                let name = self.name;
                Error::Failed(format!(
                    "mistake {name}: {path}: `{function}` has `{from}` {found} times, not once"
                ))
            })?;
            changed.push(((*path).to_owned(), after));
        }
        let test = Some(self.test.to_owned());
        Ok(Variant { name: format!("mistake: {}", self.name), files: changed, test })
    }
}

/// The text of the file at that path from the root.
pub(crate) fn text<'a>(files: &'a [File], path: &str) -> &'a str {
    let file = files.iter().find(|file| file.path == path);
    file.map_or("", |file| file.text.as_str())
}

/// Tries each variant and prints what `catch` says caught it: something must, and what
/// was expected to.
fn check(variants: &[Variant], catch: impl Fn(&Variant) -> Result<Vec<String>>) -> Result<()> {
    let mut missed = 0;
    for variant in variants {
        let start = Instant::now();
        let caught = catch(variant)?;
        let is_expected = variant.test.as_ref().is_none_or(|test| caught.contains(test));
        let remark = match caught.is_empty() {
            true => "NOT CAUGHT",
            false if is_expected => "",
            false => "not by what is named for it",
        };
        missed += usize::from(!remark.is_empty());
        let (name, seconds) = (&variant.name, start.elapsed().as_secs_f64());
        println!("{name:<78} {:<66} {seconds:>5.1} s {remark}", caught.join(", "));
    }
    let all = variants.len();
    println!("{} of {all} caught by what is named for them", all - missed);
    match missed {
        0 => Ok(()),
        _ => failed(format!("{missed} of {all} variants were not caught as they should be")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cargo, tidy::tree::Tree};

    #[test]
    fn a_mistake_is_the_source_with_one_change() {
        let files = Tree::read(cargo::root()).expect("the tree").files;
        let made: Vec<_> = of_models().chain(twins::ALL).map(|one| one.made(&files)).collect();
        let misfits: Vec<_> = made.iter().filter_map(|made| made.as_ref().err()).collect();
        assert!(misfits.is_empty(), "{misfits:#?}");
        assert!(made.len() > 25, "only {}", made.len());
        for (path, changed) in made.iter().flatten().flat_map(|variant| &variant.files) {
            assert_ne!(text(&files, path), changed);
        }
    }
}
