// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the models: each ordering of the telemetry sources weakened, and each
//! mistake that the models are to catch made. A model must fail each time.

use std::{
    ffi::OsString,
    path::Path,
    time::{Duration, Instant},
};

use super::{
    Variant, check, of_models,
    scratch::{Scratch, fails},
    text,
};
use crate::{
    cargo,
    error::{Result, failed},
    loom, source,
    tidy::tree::{File, Tree},
};

/// Weakens what has one of `only` in its name, everything if that is empty.
pub(crate) fn run(only: &[OsString]) -> Result<()> {
    let only: Vec<_> = only.iter().map(|name| name.to_string_lossy()).collect();
    let files = Tree::read(cargo::root())?.files;
    let mut variants = weakened(&files);
    for mistake in of_models() {
        variants.push(mistake.made(&files)?);
    }
    variants.retain(|variant| {
        only.is_empty() || only.iter().any(|name| variant.name.contains(name.as_ref()))
    });
    if variants.is_empty() {
        return failed(format!("nothing to weaken is called {}", only.join(", ")));
    }
    let scratch = Scratch::new(&files, "weaken", &loom::CFG)?;
    println!("the unchanged sources:");
    let models = baseline(&scratch.tests(&loom::PACKAGE)?)?;
    println!("{} models pass; {} variants:", models.len(), variants.len());
    check(&variants, |variant| scratch.with(&variant.files, || caught(&scratch, variant, &models)))
}

/// The sources with one ordering weakened, for each and each weaker one; a fence is
/// removed.
fn weakened(files: &[File]) -> Vec<Variant> {
    let mut variants = Vec::new();
    for site in source::sites(files) {
        let weaker: &[&str] = match site.ordering.as_str() {
            "Relaxed" => &[],
            _ if site.access == "fence" => &["nothing"],
            "Acquire" | "Release" => &["Relaxed"],
            "AcqRel" => &["Acquire", "Release"],
            _ => &["AcqRel"],
        };
        let (_, file) = site.path.rsplit_once('/').unwrap_or_default();
        let what = format!("{file} {}: {} {}", site.function, site.access, site.ordering);
        variants.extend(weaker.iter().map(|to| Variant {
            name: format!("{what} -> {to}"),
            files: vec![(site.path.clone(), site.weakened(text(files, &site.path), to))],
            test: site.model.clone(),
        }));
    }
    variants
}

/// Every model with its time on the unchanged sources, the fastest first.
fn baseline(binary: &Path) -> Result<Vec<(Duration, String)>> {
    let mut models = Vec::new();
    for name in loom::list(binary, &[])? {
        let start = Instant::now();
        if let Some(why) = fails(binary, &[&name, "--exact"])? {
            return failed(format!("{name} {why} on the unchanged sources"));
        }
        models.push((start.elapsed(), name));
    }
    models.sort();
    Ok(models)
}

/// The first model that fails on the variant; the one that is expected to is tried first.
fn caught(
    scratch: &Scratch,
    variant: &Variant,
    models: &[(Duration, String)],
) -> Result<Vec<String>> {
    let binary = scratch.tests(&loom::PACKAGE)?;
    let names = models.iter().map(|(_, name)| name);
    for model in variant.test.iter().chain(names) {
        if fails(&binary, &[model, "--exact"])? == Some("fails") {
            return Ok(vec![model.clone()]);
        }
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ordering_is_weakened_by_itself() {
        let files = Tree::read(cargo::root()).expect("the tree").files;
        let variants = weakened(&files);
        assert!(variants.len() > 25, "only {}", variants.len());
        for Variant { name, files: changed, .. } in &variants {
            let [(path, changed)] = &changed[..] else { panic!("{name}") };
            assert_ne!(text(&files, path), changed, "{name}");
        }
    }
}
