// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the models: each ordering of the telemetry sources weakened, and
//! each classic mistake made, one at a time in a scratch copy. A model must
//! fail each time.
//!
//! The product has no hooks for this: a variant is the shipped text with one
//! change.

use std::{
    ffi::OsString,
    path::PathBuf,
    time::{Duration, Instant},
};

use super::{binaries, list, mistakes, rustflags, source};
use crate::{
    cargo,
    error::{Error, Result},
    scratch::{Scratch, fails},
    tidy::tree::{File, Tree},
};

/// The sources with one change.
struct Variant {
    name: String,
    /// Changed files, by path, with their whole text.
    files: Vec<(String, String)>,
    /// The model that should catch it, tried first.
    model: Option<String>,
}

/// A model and its time on the unchanged sources.
#[derive(Clone)]
struct Model {
    name: String,
    took: Duration,
}

/// Weakens what has one of `only` in its name, everything if that is empty.
pub(crate) fn run(only: &[OsString]) -> Result<()> {
    let only: Vec<_> = only.iter().map(|name| name.to_string_lossy()).collect();
    let tree = Tree::read(cargo::root())?;
    let mut variants = variants(&tree.files)?;
    variants.retain(|variant| {
        only.is_empty() || only.iter().any(|name| variant.name.contains(name.as_ref()))
    });
    if variants.is_empty() {
        let names = only.join(", ");
        return Err(Error::Weaken(format!("nothing to weaken is called {names}")));
    }
    let bench = Bench::new(&tree.files)?;
    println!("the unchanged sources:");
    let models = bench.baseline()?;
    println!("{} models pass; {} variants:", models.len(), variants.len());
    let (mut survived, mut elsewhere) = (0, 0);
    for variant in &variants {
        let start = Instant::now();
        let caught = bench.try_variant(variant, &models)?;
        let seconds = start.elapsed().as_secs_f64();
        let remark = match (&caught, &variant.model) {
            (None, _) => {
                survived += 1;
                "NOT CAUGHT"
            }
            (Some(by), Some(expected)) if by != expected => {
                elsewhere += 1;
                "not by the model named for it"
            }
            _ => "",
        };
        let by = caught.as_deref().unwrap_or("-");
        println!("{:<78} {by:<66} {seconds:>5.1} s {remark}", variant.name);
    }
    let caught = variants.len() - survived;
    println!("{caught} of {} caught", variants.len());
    if survived > 0 {
        let what = format!("{survived} weakened variant(s) passed every model");
        return Err(Error::Weaken(what));
    }
    if elsewhere > 0 {
        let what =
            format!("{elsewhere} caught by another model than the code or the mistake names");
        return Err(Error::Weaken(what));
    }
    Ok(())
}

/// What an ordering is weakened to; a fence is removed.
fn weaker(ordering: &str) -> &'static [&'static str] {
    match ordering {
        "Relaxed" => &[],
        "Acquire" | "Release" => &["Relaxed"],
        "AcqRel" => &["Acquire", "Release"],
        _ => &["AcqRel"],
    }
}

fn variants(files: &[File]) -> Result<Vec<Variant>> {
    let text = |path: &str| {
        let file = files.iter().find(|file| file.path == path);
        file.map_or("", |file| file.text.as_str())
    };
    let mut variants = Vec::new();
    for site in source::sites(files) {
        let fence = site.access == "fence";
        for to in weaker(&site.ordering) {
            let to = if fence { "nothing" } else { to };
            let short = site.path.rsplit('/').next().unwrap_or("");
            variants.push(Variant {
                name: format!(
                    "{short} {}: {} {} -> {to}",
                    site.function, site.access, site.ordering
                ),
                files: vec![(site.path.clone(), site.weakened(text(&site.path), to))],
                model: site.model.clone(),
            });
        }
    }
    let mut misfits = Vec::new();
    for mistake in mistakes::all() {
        let mut changed: Vec<(String, String)> = Vec::new();
        for (file, function, from, to) in mistake.edits {
            let path = mistakes::path(file);
            let at = changed.iter().position(|(changed, _)| *changed == path);
            let before = at.map_or_else(|| text(&path).to_owned(), |at| changed.remove(at).1);
            match source::edited(&before, function, from, to) {
                Ok(after) => changed.push((path, after)),
                Err(found) => misfits.push(format!(
                    "mistake {}: {path}: function {function} has `{from}` {found} times, not once",
                    mistake.name
                )),
            }
        }
        variants.push(Variant {
            name: format!("mistake: {}", mistake.name),
            files: changed,
            model: Some(mistake.model.to_owned()),
        });
    }
    if !misfits.is_empty() {
        let misfits = misfits.join("\n");
        return Err(Error::Weaken(format!("{misfits}\nbring mistakes.rs up to date")));
    }
    Ok(variants)
}

/// Where variants are built, one after the other: the registry's crates are built
/// once and stay in the target folder for the next time.
struct Bench {
    scratch: Scratch,
    envs: Vec<(&'static str, OsString)>,
}

impl Bench {
    fn new(files: &[File]) -> Result<Self> {
        let target: PathBuf = cargo::metadata()?.target_directory.join("weaken").into();
        let (name, mut flags) = rustflags(&|name| std::env::var_os(name));
        // A variant may leave an import unused.
        flags.push(if name == "RUSTFLAGS" { " -Awarnings" } else { "\x1f-Awarnings" });
        Ok(Self {
            scratch: Scratch::new(files)?,
            envs: vec![
                (name, flags),
                ("CARGO_TARGET_DIR", target.into()),
                ("CARGO_TERM_QUIET", "true".into()),
            ],
        })
    }

    fn build(&self) -> Result<PathBuf> {
        let built = binaries(self.scratch.root(), &self.envs)?;
        let is_models = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("models-")
        };
        built.into_iter().find(is_models).ok_or(Error::NoModels)
    }

    /// Every model with its time on the unchanged sources, the fastest first.
    fn baseline(&self) -> Result<Vec<Model>> {
        let binary = self.build()?;
        let mut models = Vec::new();
        for name in list(&binary, &[])? {
            let start = Instant::now();
            if let Some(why) = fails(&binary, &[&name, "--exact"])? {
                let what = format!("{name} {why} on the unchanged sources");
                return Err(Error::Weaken(what));
            }
            let took = start.elapsed();
            models.push(Model { name, took });
        }
        models.sort_by_key(|model| model.took);
        Ok(models)
    }

    /// The first model that fails on `variant`.
    fn try_variant(&self, variant: &Variant, models: &[Model]) -> Result<Option<String>> {
        self.scratch.with(&variant.files, || {
            let binary = self.build()?;
            let expected = |model: &&Model| Some(&model.name) == variant.model.as_ref();
            let first = models.iter().filter(expected);
            let rest = models.iter().filter(|model| !expected(model));
            for model in first.chain(rest) {
                if fails(&binary, &[&model.name, "--exact"])? == Some("fails") {
                    return Ok(Some(model.name.clone()));
                }
            }
            Ok(None)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_the_source_with_one_change() {
        let mut files = Tree::read(cargo::root()).expect("the tree").files;
        files.retain(|file| file.path.starts_with("crates/telemetry/"));
        let variants = variants(&files).unwrap_or_else(|misfits| panic!("\n{misfits}"));
        assert!(variants.len() > 25, "only {}", variants.len());
        for variant in variants {
            for (path, text) in &variant.files {
                let original = files.iter().find(|file| file.path == *path);
                assert_ne!(Some(text), original.map(|file| &file.text), "{}", variant.name);
            }
        }
    }
}
