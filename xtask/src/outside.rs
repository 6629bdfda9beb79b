// SPDX-License-Identifier: MIT OR Apache-2.0
//! The README's example as a crate outside the workspace, the way a serving stack
//! takes metrale: by its own manifest, with its own choice of CUDA version.
//!
//! The crate stands in a temporary folder, because `.cargo/config.toml` would
//! choose the CUDA version anywhere below the workspace. Its dependency lines are
//! the README's, with our crates taken from this checkout.

use std::{fs, path::Path};

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Parser, Tag, TagEnd};
use xshell::{Shell, cmd};

use crate::{
    cargo,
    error::{Context, Error, Result},
};

/// The README's section that the crate is made of.
const HEADING: &str = "Use it in your server";

/// cudarc's features for the CUDA versions that are promised.
const VERSIONS: [&str; 2] = ["cuda-12080", "cuda-13000"];

/// Checks the crate for each CUDA version, with the workspace's locked packages.
pub(crate) fn run() -> Result<()> {
    let root = cargo::root();
    let readme = root.join("README.md");
    let text = fs::read_to_string(&readme).context(|| format!("read {}", readme.display()))?;
    let example = Example::find(&text).map_err(problem)?;
    let target = cargo::metadata()?.target_directory.join("outside");
    let folder = tempfile::tempdir().context(|| "make a temporary folder".to_owned())?;
    let sh = Shell::new()?;
    sh.change_dir(folder.path());
    sh.write_file("src/main.rs", &example.main)?;
    for version in VERSIONS {
        println!("outside crate with {version}");
        sh.write_file(
            "Cargo.toml",
            example.manifest(root, version).map_err(problem)?,
        )?;
        sh.copy_file(root.join("Cargo.lock"), folder.path().join("Cargo.lock"))?;
        cmd!(sh, "cargo check --target-dir {target}")
            .env_remove("CUDARC_CUDA_VERSION")
            .run()?;
    }
    Ok(())
}

fn problem(problem: String) -> Error {
    Error::Readme {
        heading: HEADING,
        problem,
    }
}

/// What the README shows.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    /// The dependency lines.
    dependencies: String,
    /// The program.
    main: String,
}

impl Example {
    /// The first `toml` and the first `rust` block of the section.
    fn find(readme: &str) -> Result<Self, String> {
        let blocks = blocks(readme, HEADING).ok_or("no such heading")?;
        let first = |language: &str| {
            let found = blocks.iter().find(|(of, _)| of == language);
            found
                .map(|(_, text)| text.clone())
                .ok_or_else(|| format!("no ```{language} block below it"))
        };
        Ok(Self {
            dependencies: first("toml")?,
            main: first("rust")?,
        })
    }

    /// The manifest with our crates taken from `root` and cudarc's CUDA version
    /// replaced by `version`.
    fn manifest(&self, root: &Path, version: &str) -> Result<String, String> {
        let mut manifest = String::from(
            "[package]\nname = \"metrale-outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n             publish = false\n\n[workspace]\n\n[lints.rust]\nwarnings = \"deny\"\n\n",
        );
        if !self.dependencies.contains("[dependencies]") {
            manifest.push_str("[dependencies]\n");
        }
        let (mut ours, mut cuda) = (0, 0);
        for line in self.dependencies.lines() {
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            let line = if let Some(folder) = key.trim().strip_prefix("metrale-") {
                ours += 1;
                let path = root.join("crates").join(folder);
                format!("{}= {}", key, at_path(value, &path)?)
            } else if key.trim() == "cudarc" {
                let at = value
                    .find("cuda-1")
                    .ok_or("cudarc has no CUDA version feature")?;
                let end = value[at..]
                    .find('"')
                    .ok_or("cudarc's feature has no closing quote")?;
                cuda += 1;
                format!("{key}={}{version}{}", &value[..at], &value[at + end..])
            } else {
                line.to_owned()
            };
            manifest.push_str(&line);
            manifest.push('\n');
        }
        match (ours, cuda) {
            (0, _) => Err("no line of a metrale crate in its toml block".to_owned()),
            (_, 1) => Ok(manifest),
            _ => Err("not one line of cudarc in its toml block".to_owned()),
        }
    }
}

/// A dependency's value with `path` in place of where it came from.
fn at_path(value: &str, path: &Path) -> Result<String, String> {
    const SOURCES: [&str; 6] = ["git", "branch", "tag", "rev", "version", "path"];
    let value = value.trim();
    let mut parts = vec![format!("path = {:?}", path.display().to_string())];
    if let Some(table) = value
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
    {
        for part in split_outside_brackets(table) {
            let key = part.split('=').next().unwrap_or_default().trim();
            if !SOURCES.contains(&key) && !key.is_empty() {
                parts.push(part.trim().to_owned());
            }
        }
    } else if !value.starts_with('"') {
        return Err(format!(
            "a dependency's value must be on its line: `{value}`"
        ));
    }
    Ok(format!("{{ {} }}", parts.join(", ")))
}

/// The parts of an inline table: split at commas that are in no array.
fn split_outside_brackets(table: &str) -> Vec<&str> {
    let mut depth = 0usize;
    table
        .split(move |c| {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        })
        .collect()
}

/// The fenced code blocks of the section under `heading`, with their languages; a
/// section ends at the next heading of its level or above.
fn blocks(markdown: &str, heading: &str) -> Option<Vec<(String, String)>> {
    let mut blocks = Vec::new();
    // The level of the section that is being read.
    let mut section: Option<HeadingLevel> = None;
    let mut title = String::new();
    let mut code: Option<String> = None;
    for event in Parser::new(markdown) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                if section.is_some_and(|own| level <= own) {
                    break;
                }
                title.clear();
            }
            Event::End(TagEnd::Heading(level)) if title.trim() == heading => {
                section = section.or(Some(level));
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) if section.is_some() => {
                let language = info.split([',', ' ']).next().unwrap_or_default();
                code = Some(language.to_owned());
                blocks.push((language.to_owned(), String::new()));
            }
            Event::End(TagEnd::CodeBlock) => code = None,
            Event::Text(text) | Event::Code(text) => match (&code, blocks.last_mut()) {
                (Some(_), Some((_, block))) => block.push_str(&text),
                _ => title.push_str(&text),
            },
            _ => {}
        }
    }
    section.map(|_| blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = r#"
# metrale

```rust
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

```rust,no_run
fn main() {}
```

## Next

```toml
wrong
```
"#;

    #[test]
    fn takes_the_first_blocks_of_the_section() {
        let example = Example::find(README).expect("an example");
        assert_eq!(example.main, "fn main() {}\n");
        assert!(example.dependencies.starts_with("[dependencies]\n"));
        assert!(example.dependencies.ends_with("other = \"1\"\n"));
    }

    #[test]
    fn says_what_is_missing() {
        let error = |readme: &str| Example::find(readme).expect_err("missing");
        assert_eq!(error("# metrale\n"), "no such heading");
        let bare = "## Use it in your server\n\n## Next\n\n```toml\n```\n\n```rust\n```\n";
        assert_eq!(error(bare), "no ```toml block below it");
        let no_rust = README.replace("rust", "text");
        assert_eq!(error(&no_rust), "no ```rust block below it");
        let manifest = |dependencies: &str| {
            let example = Example {
                dependencies: dependencies.to_owned(),
                main: String::new(),
            };
            example.manifest(Path::new("/r"), "cuda-13000")
        };
        assert!(manifest("cudarc = { features = [\"cuda-12080\"] }").is_err());
        assert!(manifest("metrale-telemetry = \"1\"").is_err());
        assert!(manifest("metrale-telemetry = \"1\"\ncudarc = \"1\"").is_err());
        assert!(manifest("metrale-telemetry = {\n").is_err());
    }

    #[test]
    fn the_manifest_takes_ours_by_path_and_the_asked_version() {
        let example = Example::find(README).expect("an example");
        let manifest = example
            .manifest(Path::new("/r"), "cuda-13000")
            .expect("a manifest");
        let lines: Vec<_> = manifest
            .lines()
            .skip_while(|l| *l != "[dependencies]")
            .collect();
        assert_eq!(
            lines,
            [
                "[dependencies]",
                "metrale-gpu-runtime = { path = \"/r/crates/gpu-runtime\", features = [\"x\", \"y\"], default-features = false }",
                "metrale-telemetry = { path = \"/r/crates/telemetry\" }",
                "cudarc = { version = \"0.19\", features = [\"driver\", \"cuda-13000\"] }",
                "other = \"1\"",
            ]
        );
        let bare = Example {
            dependencies: example.dependencies.replace("[dependencies]\n", ""),
            main: String::new(),
        };
        assert_eq!(bare.manifest(Path::new("/r"), "cuda-13000"), Ok(manifest));
    }
}
