// SPDX-License-Identifier: MIT OR Apache-2.0
//! metrale measured on a GPU: the binary that does it, run here or packed for a
//! machine that has a GPU, a driver and nothing else.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use xshell::cmd;

use crate::{
    bench::PACKAGE,
    cargo,
    error::{Context, Result, failed},
    flags::GpuBench,
    program, sim,
};

const BINARY: &str = "metrale-gpu-bench";

/// A packed binary is below this: what is copied to other machines is small.
const MAX_BYTES: u64 = 64 << 20;

/// Packs the binary, or becomes it.
pub(crate) fn run(flags: &GpuBench) -> Result<()> {
    match &flags.pack {
        Some(file) => pack(file),
        None => {
            let mut command = Command::new(build(&[])?);
            command.args(&flags.args).env(sim::VAR, sim::build()?);
            Err(program::exec(Ok(command)))
        }
    }
}

/// The binary of the release profile, with `more` arguments to cargo.
fn build(more: &[&str]) -> Result<PathBuf> {
    let mut args = vec!["build", "--release", "--package", PACKAGE, "--bin", BINARY];
    args.extend(more);
    cargo::binary(&cargo::build(&args, &[])?, BINARY)
}

/// Builds one stripped binary with all that it needs but a driver, and puts it
/// at `file`.
fn pack(file: &Path) -> Result<()> {
    let strip = ["--config", "profile.release.strip=\"symbols\"", "--config"];
    let built = build(&[&strip[..], &["profile.release.debug=false"]].concat())?;
    let what = || format!("pack {} as {}", built.display(), file.display());
    let bytes = fs::read(&built).context(what)?;
    fits(bytes.len() as u64)?;
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).context(what)?;
    }
    // Keeps the permission to be run.
    fs::copy(&built, file).context(what)?;
    println!("{}: {}", file.display(), told(&bytes));
    println!("run it on the other machine: ./{BINARY} --out FOLDER");
    Ok(())
}

fn fits(bytes: u64) -> Result<()> {
    if bytes < MAX_BYTES {
        return Ok(());
    }
    failed(format!("{BINARY} is {bytes} bytes; at most {MAX_BYTES} travel"))
}

/// The size, and which C library the binary needs.
fn told(binary: &[u8]) -> String {
    let size = binary.len() as f64 / f64::from(1 << 20);
    let libc = glibc(binary)
        .map_or(String::new(), |(major, minor)| format!(", needs glibc {major}.{minor} or newer"));
    format!("{size:.1} MiB, stripped{libc}")
}

/// The newest version of glibc's symbols that the binary names.
fn glibc(binary: &[u8]) -> Option<(u32, u32)> {
    const PREFIX: &[u8] = b"GLIBC_";
    let versions = binary.windows(PREFIX.len()).enumerate();
    let versions = versions.filter(|(_, window)| *window == PREFIX);
    let version = |(at, _): (usize, &[u8])| {
        let rest = &binary[at + PREFIX.len()..];
        let end = rest.iter().position(|c| !(c.is_ascii_digit() || *c == b'.'));
        let text = str::from_utf8(&rest[..end?]).ok()?;
        let (major, rest) = text.split_once('.')?;
        let minor = rest.split('.').next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    versions.filter_map(version).max()
}

/// The binary's tests, among them a short run on the simulated driver, as a step
/// of `ci`.
pub(crate) fn smoke() -> Result<()> {
    let sh = cargo::shell()?;
    sh.set_var(sim::VAR, sim::build()?);
    Ok(cmd!(sh, "cargo test --package {PACKAGE} --lib --tests").run()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_c_library_is_told() {
        let binary = b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0GLIBC_2.";
        assert_eq!(glibc(binary), Some((2, 34)));
        assert_eq!(glibc(b"static"), None);
        let told = told(&[0; 3 << 19]);
        assert_eq!(told, "1.5 MiB, stripped");
    }

    #[test]
    fn what_is_too_large_does_not_travel() {
        assert!(fits(MAX_BYTES - 1).is_ok());
        let error = fits(MAX_BYTES).expect_err("too large").to_string();
        assert!(error.contains("67108864"), "{error}");
    }
}
