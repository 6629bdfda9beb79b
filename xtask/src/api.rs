// SPDX-License-Identifier: MIT OR Apache-2.0
//! The public API of the library crates, a line for each item, in `docs/api`, and
//! of the C library as its header: a change of it shows in review.
//!
//! The former is read from rustdoc's JSON, whose format has a version of its own: the
//! crate `public-api` is bound to the one of `rust-toolchain.toml`'s rustdoc, and
//! says so where the two differ.

use std::{
    fs,
    path::{Path, PathBuf},
};

use xshell::cmd;

use crate::{
    cargo,
    error::{Context, Error, Result, failed},
};

/// The crates, and the features that show all of each that needs no libclang.
const CRATES: [(&str, &[&str]); 4] = [
    ("metrale-gpu-sys", &[]),
    ("metrale-telemetry", &["--features", "prometheus,trace"]),
    ("metrale-gpu-runtime", &[]),
    ("metrale-http", &[]),
];

/// The C library, and its header in it.
const C_LIBRARY: &str = "crates/capi";
const HEADER: &str = "include/metrale.h";

/// Compares the files with the sources, or writes them.
pub(crate) fn run(write: bool) -> Result<()> {
    let mut stale = Vec::new();
    for (path, now) in files()? {
        let file = cargo::root().join(&path);
        if write {
            fs::write(&file, now).context(|| format!("write {}", file.display()))?;
        } else if fs::read_to_string(&file).ok().as_deref() != Some(now.as_str()) {
            stale.push(path);
        }
    }
    match stale.is_empty() {
        true => Ok(()),
        false => failed(format!(
            "the public API has changed: `cargo xtask api --write` writes it anew: {stale:?}"
        )),
    }
}

/// Each file, and what the sources make of it.
fn files() -> Result<Vec<(PathBuf, String)>> {
    let mut files = vec![(Path::new(C_LIBRARY).join(HEADER), header()?)];
    for (package, features) in CRATES {
        let path = PathBuf::from(format!("docs/api/{package}.txt"));
        files.push((path, listing(package, features)?));
    }
    Ok(files)
}

/// The header, as the library's `cbindgen.toml` wants it.
fn header() -> Result<String> {
    let library = cargo::root().join(C_LIBRARY);
    let config = cbindgen::Config::from_file(library.join("cbindgen.toml"));
    let mut header = Vec::new();
    cbindgen::Builder::new()
        .with_crate(&library)
        .with_config(config.map_err(Error::Failed)?)
        .generate()
        .map_err(|error| Error::Failed(format!("cbindgen: {error}")))?
        .write(&mut header);
    Ok(String::from_utf8_lossy(&header).into_owned())
}

/// The public items of a package, sorted as its modules are.
fn listing(package: &str, features: &[&str]) -> Result<String> {
    let sh = cargo::shell()?;
    // A folder of its own: the variable makes cargo build dependencies anew.
    let folder = cargo::metadata()?.target_directory.join("api");
    cmd!(
        sh,
        "cargo rustdoc --quiet --package {package} --lib {features...} --target-dir {folder}
         -- -Z unstable-options --output-format json"
    )
    // The output's format is unstable, so a stable rustdoc must be let.
    .env("RUSTC_BOOTSTRAP", "1")
    .run()?;
    let json = folder.join(format!("doc/{}.json", package.replace('-', "_")));
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()?;
    Ok(api.to_string())
}
