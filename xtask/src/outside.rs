// SPDX-License-Identifier: MIT OR Apache-2.0
//! The README's program as a crate outside the workspace, the way a serving stack
//! takes metrale: by its own manifest, with its own choice of CUDA version.
//!
//! The crate stands in a temporary folder, because `.cargo/config.toml` would
//! choose the CUDA version anywhere below the workspace. Its dependency lines are
//! the README's, with our crates taken from this checkout. Stacks that pin an older
//! cudarc are a second program, which runs on the simulated driver.

use std::{fs, path::Path};

use toml::{Table, Value};
use xshell::{Shell, cmd};

use crate::{
    cargo,
    error::{Context, Error, Result, failed},
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

/// cudarc's features for the CUDA versions that are promised.
const VERSIONS: [&str; 2] = ["cuda-12080", "cuda-13000"];

/// Keys that say where a dependency comes from.
const FROM: [&str; 6] = ["git", "branch", "tag", "rev", "version", "path"];

/// Checks the crates for each version of cudarc and CUDA, with the workspace's locked packages.
pub(crate) fn run() -> Result<()> {
    let root = cargo::root();
    let readme = root.join("README.md");
    let text = fs::read_to_string(&readme).context(|| format!("read {}", readme.display()))?;
    let dependencies = find(&text).map_err(problem)?;
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
        sh.write_file("Cargo.toml", manifest(&dependencies, root, version).map_err(problem)?)?;
        sh.copy_file(root.join("Cargo.lock"), folder.path().join("Cargo.lock"))?;
        cmd!(sh, "cargo check --target-dir {target}").env_remove("CUDARC_CUDA_VERSION").run()?;
    }
    Ok(())
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
            cmd!(sh, "cargo check --target-dir {target}")
                .env_remove("CUDARC_CUDA_VERSION")
                .run()?;
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

fn problem(problem: String) -> Error {
    Error::Failed(format!("README.md, \"{HEADING}\": {problem}"))
}

/// The first `toml` block of the section.
fn find(readme: &str) -> Result<String, String> {
    let heading = format!("\n## {HEADING}\n");
    let readme = format!("\n{readme}");
    let (_, section) = readme.split_once(&heading).ok_or("no such heading")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let block = section.split_once("\n```toml\n").map(|(_, block)| block);
    let block = block.ok_or("no ```toml block below it")?;
    Ok(block.split("```").next().unwrap_or_default().to_owned())
}

/// The manifest with our crates taken from `root` and cudarc's CUDA version
/// replaced by `version`.
fn manifest(dependencies: &str, root: &Path, version: &str) -> Result<String, String> {
    let block: Table = dependencies.parse().map_err(|e| format!("{e}"))?;
    let inner = block.get("dependencies").and_then(Value::as_table).cloned();
    let mut dependencies = inner.unwrap_or(block);
    let (mut ours, mut cuda) = (0, 0);
    for (name, value) in &mut dependencies {
        if let Some(folder) = name.strip_prefix("metrale-") {
            ours += 1;
            let mut own = value.as_table().cloned().unwrap_or_default();
            own.retain(|key, _| !FROM.contains(&key));
            let path = root.join("crates").join(folder).display().to_string();
            own.insert("path".to_owned(), path.into());
            *value = own.into();
        } else if name == "cudarc" {
            let features = value.get_mut("features").and_then(Value::as_array_mut);
            let is_version = |feature: &&mut Value| {
                feature.as_str().is_some_and(|name| name.starts_with("cuda-1"))
            };
            let feature = features.and_then(|all| all.iter_mut().find(is_version));
            *feature.ok_or("cudarc has no CUDA version feature")? = version.into();
            cuda += 1;
        }
    }
    if ours == 0 || cuda == 0 {
        return Err("its toml block lacks a metrale crate or cudarc".to_owned());
    }
    let dependencies = Table::from_iter([("dependencies".to_owned(), dependencies.into())]);
    Ok(format!("{PACKAGE}{dependencies}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = r#"
# metrale

```toml
wrong
```

## Use it in your server

```sh
cargo add
```

### Dependencies

```toml
[dependencies]
metrale-gpu-runtime = { git = "https://a.org/b", tag = "v1", features = ["x", "y"], default-features = false }
metrale-telemetry = "0.1"
cudarc = { version = "0.19", features = ["driver", "cuda-12090"] }
other = "1"
```

## Next

```toml
wrong
```
"#;

    #[test]
    fn takes_the_first_block_of_the_section() {
        let dependencies = find(README).expect("dependencies");
        assert!(dependencies.starts_with("[dependencies]\n"));
        assert!(dependencies.ends_with("other = \"1\"\n"));
    }

    #[test]
    fn says_what_is_missing() {
        let error = |readme: &str| find(readme).expect_err("missing");
        assert_eq!(error("# metrale\n"), "no such heading");
        let bare = "## Use it in your server\n\n## Next\n\n```toml\n```\n";
        assert_eq!(error(bare), "no ```toml block below it");
        let manifest = |lines: &str| manifest(lines, Path::new("/r"), "cuda-13000");
        assert!(manifest("cudarc = { features = [\"cuda-12080\"] }").is_err());
        assert!(manifest("metrale-telemetry = \"1\"").is_err());
        assert!(manifest("metrale-telemetry = \"1\"\ncudarc = \"1\"").is_err());
        assert!(manifest("metrale-telemetry = {\n").is_err());
    }

    #[test]
    fn the_manifest_takes_ours_by_path_and_the_asked_version() {
        let dependencies = find(README).expect("dependencies");
        let made = |lines: &str| manifest(lines, Path::new("/r"), "cuda-13000");
        let manifest = made(&dependencies).expect("a manifest");
        let found: Table = manifest.parse().expect("TOML");
        let expected: Table = r#"
            metrale-gpu-runtime = { path = "/r/crates/gpu-runtime", features = ["x", "y"], default-features = false }
            metrale-telemetry = { path = "/r/crates/telemetry" }
            cudarc = { version = "0.19", features = ["driver", "cuda-13000"] }
            other = "1"
        "#.parse().expect("TOML");
        assert_eq!(found["dependencies"].as_table(), Some(&expected));
        assert_eq!(found["lints"]["rust"]["warnings"].as_str(), Some("deny"));
        let bare = dependencies.replace("[dependencies]\n", "");
        assert_eq!(made(&bare), Ok(manifest));
    }
}
