// SPDX-License-Identifier: MIT OR Apache-2.0
//! The README's program as a crate outside the workspace, the way a serving stack
//! takes metrale: by its own manifest, with its own choice of CUDA version.
//!
//! The crate stands in a temporary folder, because `.cargo/config.toml` would
//! choose the CUDA version anywhere below the workspace. Its dependency lines are
//! the README's, with our crates taken from this checkout. Stacks that pin an older
//! cudarc are a second program, which runs on the simulated driver.

use std::{fs, path::Path};

use xshell::{Shell, cmd};

use crate::{
    cargo,
    error::{Context, Result, failed},
};

/// The README's section that the dependencies are from.
const HEADING: &str = "Use it in your server";

/// The program, which that section shows the heart of.
const PROGRAM: &str = "crates/gpu-runtime/examples/readme.rs";

/// What a server depends on, from the bottom up.
const LIBRARIES: [&str; 4] =
    ["metrale-gpu-sys", "metrale-telemetry", "metrale-gpu-runtime", "metrale-http"];

/// A program on raw handles, for a cudarc that does not tell those of functions.
const OLDER_PROGRAM: &str = "crates/gpu-runtime/examples/older_cudarc.rs";

/// Versions of cudarc, how each loads the driver, our feature for it, and whether
/// the program is run too. Those before 0.19 want all functions of a CUDA version at
/// once, which the simulator has not.
const OLDER: [(&str, &str, &str, bool); 4] = [
    ("0.16.6", "dynamic-loading", "", false),
    ("0.17.8", "dynamic-loading", "", false),
    ("0.19.0", "fallback-dynamic-loading", "\"cudarc\"", false),
    ("0.19.8", "fallback-dynamic-loading", "\"cudarc\"", true),
];

/// 100 launches of 5 us, and lanes that hold one each.
const OLDER_PRINTS: &str = "lanes: 100, 500000 ns\nattention: 100, 500000 ns";

const PACKAGE: &str = "[package]\nname = \"metrale-outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
                       publish = false\n\n[workspace]\n\n[lints.rust]\nwarnings = \"deny\"\n\n";

/// cudarc's features for the CUDA versions that are promised, the README's first.
const VERSIONS: [&str; 2] = ["cuda-12080", "cuda-13000"];

/// Where the README takes our crates from.
const CHECKOUT: &str = "../metrale";

/// Checks the crates for each version of cudarc and CUDA, with the workspace's locked packages.
pub(crate) fn run() -> Result<()> {
    let root = cargo::root();
    let readme = root.join("README.md");
    let text = fs::read_to_string(&readme).context(|| format!("read {}", readme.display()))?;
    let target = cargo::metadata()?.target_directory.join("outside");
    let folder = tempfile::tempdir().context(|| "make a temporary folder".to_owned())?;
    let sh = Shell::new()?;
    sh.change_dir(folder.path());
    sh.create_dir("src")?;
    oldest_compiler(&sh, root)?;
    older(&sh, root, target.as_std_path())?;
    sh.copy_file(root.join(PROGRAM), folder.path().join("src/main.rs"))?;
    for version in VERSIONS {
        println!("outside crate with {version}");
        sh.write_file("Cargo.toml", manifest(&text, root, version)?)?;
        sh.copy_file(root.join("Cargo.lock"), folder.path().join("Cargo.lock"))?;
        check(&sh, target.as_std_path())?;
    }
    Ok(())
}

/// Checks the crate that stands in the shell's folder.
fn check(sh: &Shell, target: &Path) -> Result<()> {
    Ok(cmd!(sh, "cargo check --target-dir {target}").env_remove("CUDARC_CUDA_VERSION").run()?)
}

/// Checks the libraries with the oldest compiler that they declare.
fn oldest_compiler(sh: &Shell, root: &Path) -> Result<()> {
    let metadata = cargo::metadata()?;
    for name in LIBRARIES {
        let package =
            metadata.workspace_packages().into_iter().find(|package| package.name == name);
        let declared = package.and_then(|package| package.rust_version.as_ref());
        let Some(version) = declared.map(ToString::to_string) else {
            return failed(format!("{name} declares no rust-version in its Cargo.toml"));
        };
        println!("{name} with Rust {version}");
        cmd!(sh, "rustup toolchain install {version} --profile minimal --no-self-update")
            .quiet()
            .ignore_stderr()
            .run()?;
        let target = metadata.target_directory.join("oldest");
        let _folder = sh.push_dir(root);
        cmd!(
            sh,
            "rustup run {version} cargo check --locked --package {name} --target-dir {target}"
        )
        .run()?;
    }
    Ok(())
}

/// Checks, and runs on the simulated driver, a stack on an older cudarc.
fn older(sh: &Shell, root: &Path, target: &Path) -> Result<()> {
    let libraries = crate::sim::build()?;
    sh.copy_file(root.join(OLDER_PROGRAM), sh.current_dir().join("src/main.rs"))?;
    for (version, loading, feature, runs) in OLDER {
        println!("outside crate with cudarc {version}");
        sh.write_file("Cargo.toml", older_manifest(root, version, loading, feature))?;
        sh.copy_file(root.join("Cargo.lock"), sh.current_dir().join("Cargo.lock"))?;
        if !runs {
            check(sh, target)?;
            continue;
        }
        let printed = cmd!(sh, "cargo run --quiet --target-dir {target}")
            .env_remove("CUDARC_CUDA_VERSION")
            .env("LD_LIBRARY_PATH", &libraries)
            .read()?;
        if printed != OLDER_PRINTS {
            return failed(format!(
                "the program on cudarc {version} printed\n{printed}\nand not\n{OLDER_PRINTS}"
            ));
        }
    }
    Ok(())
}

/// A manifest with that cudarc, and with ours that knows it (`feature`) or none.
fn older_manifest(root: &Path, version: &str, loading: &str, feature: &str) -> String {
    let crates = root.join("crates");
    let crates = crates.display();
    format!(
        r#"{PACKAGE}[features]
default = [{feature}]
cudarc = []

[dependencies]
metrale-gpu-runtime = {{ path = "{crates}/gpu-runtime", default-features = false, features = [{feature}] }}
metrale-telemetry = {{ path = "{crates}/telemetry" }}
cudarc = {{ version = "={version}", default-features = false, features = ["std", "driver", "{loading}", "cuda-12080"] }}
"#
    )
}

/// The manifest of the section's first `toml` block, with our crates taken from `root`
/// and cudarc's feature for that CUDA version.
fn manifest(readme: &str, root: &Path, version: &str) -> Result<String> {
    let section = readme.split_once(&format!("\n## {HEADING}\n")).map(|(_, section)| section);
    let block = section.and_then(|section| section.split_once("\n```toml\n"));
    let block = block.and_then(|(_, block)| block.split_once("```"));
    let (dependencies, _) = block.unwrap_or_default();
    if !dependencies.contains(CHECKOUT) || !dependencies.contains(VERSIONS[0]) {
        let (checkout, version) = (CHECKOUT, VERSIONS[0]);
        return failed(format!(
            "README.md, \"{HEADING}\": no {checkout} or no {version} in a toml block"
        ));
    }
    let ours = dependencies.replace(CHECKOUT, &root.display().to_string());
    Ok(format!("{PACKAGE}{}", ours.replace(VERSIONS[0], version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_takes_ours_by_path_and_the_asked_version() {
        let block = "[dependencies]\nmetrale-a = { path = \"../metrale/crates/a\" }\n\
                     cudarc = { version = \"0.19\", features = [\"cuda-12080\"] }\n";
        let wrong = "\n```toml\nwrong\n```\n";
        let readme =
            format!("# metrale\n{wrong}\n## {HEADING}\n\n```toml\n{block}```\n\n## Next\n{wrong}");
        let made = manifest(&readme, Path::new("/r"), "cuda-13000").expect("a manifest");
        let dependencies = "[dependencies]\nmetrale-a = { path = \"/r/crates/a\" }\n\
                            cudarc = { version = \"0.19\", features = [\"cuda-13000\"] }\n";
        assert_eq!(made, format!("{PACKAGE}{dependencies}"));
        for bare in ["# metrale\n".to_owned(), format!("\n## {HEADING}\n{wrong}")] {
            assert!(manifest(&bare, Path::new("/r"), "cuda-13000").is_err());
        }
    }
}
