// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule `layers`: a crate uses only crates below it, telemetry knows CUDA's FFI only
//! under its feature `nvtx`, loom is no dependency of an ordinary build, and no
//! library asks for protobuf.

use cargo_metadata::{DependencyKind, Metadata};

use super::Violation;

/// The crates from the bottom up.
const ORDER: &[&str] = &[
    "metrale-gpu-sys",
    "metrale-telemetry",
    "metrale-gpu-runtime",
    "metrale-capi",
    "metrale-python",
    "metrale-gpu-sim",
    "metrale-http",
    "metrale-replay",
    "metrale-loom-tests",
    "metrale-bench",
    "xtask",
];

/// The library crates that a server links, but http: whoever takes its feature
/// `protobuf` asks for it.
const LIBRARIES: &[&str] =
    &["metrale-gpu-sys", "metrale-telemetry", "metrale-gpu-runtime", "metrale-capi"];

/// The only condition under which a library depends on loom.
const LOOM: &str = "cfg(metrale_loom)";

/// A member of the workspace, as far as this rule looks.
#[derive(Debug, Default, Clone)]
pub(super) struct Member {
    name: String,
    uses: Vec<Use>,
    /// Feature and what it turns on, for each pair.
    turns_on: Vec<(String, String)>,
}

/// A normal or build dependency.
#[derive(Debug, Default, Clone)]
struct Use {
    name: String,
    optional: bool,
    target: Option<String>,
    features: Vec<String>,
}

/// The members from cargo's metadata; dev-dependencies are free and left out.
pub(super) fn members(metadata: &Metadata) -> Vec<Member> {
    let member = |package: &cargo_metadata::Package| {
        let uses = package.dependencies.iter();
        let features = package.features.iter();
        Member {
            name: package.name.to_string(),
            uses: uses
                .filter(|dependency| dependency.kind != DependencyKind::Development)
                .map(|dependency| Use {
                    name: dependency.name.clone(),
                    optional: dependency.optional,
                    target: dependency.target.as_ref().map(ToString::to_string),
                    features: dependency.features.clone(),
                })
                .collect(),
            turns_on: features
                .flat_map(|(feature, on)| on.iter().map(|on| (feature.clone(), on.clone())))
                .collect(),
        }
    };
    metadata.workspace_packages().into_iter().map(member).collect()
}

pub(super) fn check(members: &[Member]) -> Vec<Violation> {
    let mut found = Vec::new();
    for member in members {
        let mut report = |message: String| {
            found.push(Violation {
                path: format!("package {}", member.name),
                line: 0,
                rule: "layers",
                message,
            });
        };
        let level = |name: &str| ORDER.iter().position(|other| *other == name);
        for used in &member.uses {
            let ours = members.iter().any(|other| other.name == used.name);
            // A member outside the order helps tests: it may use any crate, and
            // none in the order uses it.
            if ours
                && let Some(own) = level(&member.name)
                && level(&used.name).is_none_or(|other| other >= own)
            {
                report(format!("uses {}, which is not below it", used.name));
            }
            if used.name == "loom"
                && LIBRARIES.contains(&member.name.as_str())
                && used.target.as_deref() != Some(LOOM)
            {
                report(format!("depends on loom other than under `{LOOM}`"));
            }
            if used.name == "prometheus-client" && LIBRARIES.contains(&member.name.as_str()) {
                if !used.optional {
                    report("prometheus-client must be optional".to_owned());
                }
                let asked = used.features.iter().any(|feature| feature.contains("protobuf"));
                let turned_on = member.turns_on.iter().any(|(_, on)| on.contains("protobuf"));
                if asked || turned_on {
                    report("asks prometheus-client for protobuf: that is the user's".to_owned());
                }
            }
            if member.name == "metrale-telemetry" && used.name == "metrale-gpu-sys" {
                if !used.optional {
                    report("metrale-gpu-sys must be optional, under feature nvtx".to_owned());
                }
                for (feature, on) in &member.turns_on {
                    let on = on.trim_start_matches("dep:").split('/').next();
                    if on == Some("metrale-gpu-sys") && feature != "nvtx" {
                        report(format!(
                            "feature {feature} turns on metrale-gpu-sys; only nvtx may"
                        ));
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Vec<Member> {
        let bare = |name: &&str| Member { name: (*name).to_owned(), ..Member::default() };
        ORDER.iter().chain(&["metrale-test-help"]).map(bare).collect()
    }

    /// The violations where `name` also uses `used`.
    fn with(name: &str, used: Use, turns_on: &[(&str, &str)]) -> usize {
        let mut members = workspace();
        let member = members.iter_mut().find(|m| m.name == name).expect("member");
        member.uses.push(used);
        let own = |(feature, on): &(&str, &str)| ((*feature).to_owned(), (*on).to_owned());
        member.turns_on = turns_on.iter().map(own).collect();
        check(&members).len()
    }

    fn plain(name: &str) -> Use {
        Use { name: name.to_owned(), ..Use::default() }
    }

    #[test]
    fn fires_on_each_use_that_is_not_downward() {
        assert_eq!(check(&workspace()), []);
        for (at, name) in ORDER.iter().enumerate() {
            for (other, used) in ORDER.iter().enumerate() {
                if (*name, *used) == ("metrale-telemetry", "metrale-gpu-sys") {
                    continue;
                }
                let expected = usize::from(other >= at);
                assert_eq!(with(name, plain(used), &[]), expected, "{name} uses {used}");
            }
        }
        assert_eq!(with("xtask", plain("metrale-test-help"), &[]), 1);
        assert_eq!(with("metrale-test-help", plain("xtask"), &[]), 0);
        assert_eq!(with("metrale-gpu-sys", plain("libc"), &[]), 0);
    }

    #[test]
    fn telemetry_knows_cuda_only_under_nvtx() {
        let (telemetry, sys) = ("metrale-telemetry", plain("metrale-gpu-sys"));
        assert_eq!(with(telemetry, sys.clone(), &[]), 1);
        let optional = Use { optional: true, ..sys };
        let on = |pairs: &[(&str, &str)]| with(telemetry, optional.clone(), pairs);
        let nvtx = [("nvtx", "dep:metrale-gpu-sys"), ("nvtx", "metrale-gpu-sys/nvtx")];
        assert_eq!(on(&nvtx), 0);
        assert_eq!(on(&[("default", "dep:metrale-gpu-sys")]), 1);
        assert_eq!(on(&[("prometheus", "metrale-gpu-sys/nvtx")]), 1);
        assert_eq!(on(&[("metrale-gpu-sys", "dep:metrale-gpu-sys")]), 1);
    }

    #[test]
    fn libraries_ask_for_no_protobuf() {
        let client = |optional, features: &[&str]| Use {
            optional,
            features: features.iter().map(|&feature| feature.to_owned()).collect(),
            ..plain("prometheus-client")
        };
        let on = [("prometheus", "dep:prometheus-client")];
        let protobuf = [("prometheus", "prometheus-client/prometheus_protobuf")];
        for library in LIBRARIES {
            assert_eq!(with(library, client(true, &[]), &on), 0);
            assert_eq!(with(library, client(false, &[]), &on), 1);
            assert_eq!(with(library, client(true, &["protobuf-protox"]), &on), 1);
            assert_eq!(with(library, client(true, &[]), &protobuf), 1);
        }
        assert_eq!(with("metrale-replay", client(false, &["protobuf"]), &[]), 0);
    }

    #[test]
    fn libraries_know_loom_only_under_the_cfg() {
        let under =
            |target: Option<&str>| Use { target: target.map(str::to_owned), ..plain("loom") };
        for library in LIBRARIES {
            assert_eq!(with(library, under(Some(LOOM)), &[]), 0, "{library}");
            assert_eq!(with(library, under(None), &[]), 1, "{library}");
            assert_eq!(with(library, under(Some("cfg(unix)")), &[]), 1, "{library}");
        }
    }
}
