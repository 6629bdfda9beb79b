// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule `layers`: a crate uses only crates below it, telemetry knows CUDA's FFI only
//! under its feature `nvtx`, loom is no dependency of an ordinary build, and no
//! library asks for protobuf.

use cargo_metadata::{Dependency, DependencyKind, Package};

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

/// Checks the members of the workspace.
pub(super) fn check(members: &[Package]) -> Vec<Violation> {
    let mut found = Vec::new();
    for member in members {
        // Dev-dependencies are free.
        let used =
            member.dependencies.iter().filter(|used| used.kind != DependencyKind::Development);
        let wrong = used.flat_map(|used| [misplaced(member, used, members), unasked(member, used)]);
        let path = format!("package {}", member.name);
        found.extend(wrong.flatten().map(|message| Violation {
            path: path.clone(),
            line: 0,
            rule: "layers",
            message,
        }));
    }
    found
}

/// A member outside the order helps tests: it may use any crate, and none in the order
/// uses it.
fn misplaced(member: &Package, used: &Dependency, members: &[Package]) -> Option<String> {
    let level = |name: &str| ORDER.iter().position(|other| *other == name);
    let is_ours = members.iter().any(|other| *other.name == used.name);
    let (own, other) = (level(&member.name), level(&used.name));
    let is_wrong = is_ours && own.is_some_and(|own| other.is_none_or(|other| other >= own));
    is_wrong.then(|| format!("uses {}, which is not below it", used.name))
}

/// What a library asks of those who use it.
fn unasked(member: &Package, used: &Dependency) -> Option<String> {
    let name = member.name.as_str();
    let features = || member.features.iter();
    let problem = match used.name.as_str() {
        _ if !LIBRARIES.contains(&name) => return None,
        "loom" => {
            let condition = used.target.as_ref().map(ToString::to_string);
            (condition.as_deref() != Some(LOOM)).then_some("loom is only for `cfg(metrale_loom)`")
        }
        "prometheus-client" => {
            let turned_on = features().flat_map(|(_, on)| on).chain(&used.features);
            let is_asked = turned_on.into_iter().any(|feature| feature.contains("protobuf"));
            (is_asked || !used.optional)
                .then_some("prometheus-client is optional, and its protobuf the user's")
        }
        "metrale-gpu-sys" if name == "metrale-telemetry" => {
            let is_sys =
                |on: &String| on.trim_start_matches("dep:").split('/').next() == Some(&used.name);
            let mut others = features().filter(|(feature, _)| *feature != "nvtx");
            (!used.optional || others.any(|(_, on)| on.iter().any(is_sys)))
                .then_some("metrale-gpu-sys is optional, and turned on by feature nvtx alone")
        }
        _ => None,
    };
    problem.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use cargo_metadata::Metadata;

    use super::*;

    /// The violations where `name` also uses `used`, changed by `change`, and its features
    /// turn on what `turns_on` says.
    fn with(
        name: &str,
        used: &str,
        turns_on: &[(&str, &str)],
        change: impl FnOnce(&mut Dependency),
    ) -> usize {
        static METADATA: LazyLock<Metadata> =
            LazyLock::new(|| crate::cargo::metadata().expect("cargo runs"));
        let mut members: Vec<_> = METADATA.workspace_packages().into_iter().cloned().collect();
        let mut dependency = members.iter().find_map(|member| member.dependencies.first().cloned());
        let dependency = dependency.as_mut().expect("some crate uses another");
        (dependency.name, dependency.kind) = (used.to_owned(), DependencyKind::Normal);
        (dependency.optional, dependency.target) = (false, None);
        dependency.features.clear();
        change(dependency);
        for member in &mut members {
            member.dependencies.clear();
            member.features.clear();
        }
        let member = members.iter_mut().find(|member| **member.name == *name).expect("a member");
        member.dependencies.push(dependency.clone());
        for (feature, on) in turns_on {
            member.features.entry((*feature).to_owned()).or_default().push((*on).to_owned());
        }
        check(&members).len()
    }

    #[test]
    fn fires_on_each_use_that_is_not_downward() {
        for (at, name) in ORDER.iter().enumerate() {
            for (other, used) in ORDER.iter().enumerate() {
                let is_nvtx = (*name, *used) == ("metrale-telemetry", "metrale-gpu-sys");
                let expected = usize::from(other >= at || is_nvtx);
                assert_eq!(with(name, used, &[], |_| ()), expected, "{name} uses {used}");
            }
        }
        assert_eq!(with("xtask", "metrale-differential", &[], |_| ()), 1);
        assert_eq!(with("metrale-differential", "xtask", &[], |_| ()), 0);
        assert_eq!(with("metrale-gpu-sys", "libc", &[], |_| ()), 0);
    }

    #[test]
    fn telemetry_knows_cuda_only_under_nvtx() {
        let on = |on: &[(&str, &str)]| {
            with("metrale-telemetry", "metrale-gpu-sys", on, |used| used.optional = true)
        };
        assert_eq!(on(&[("nvtx", "dep:metrale-gpu-sys"), ("nvtx", "metrale-gpu-sys/nvtx")]), 0);
        assert_eq!(on(&[("default", "dep:metrale-gpu-sys")]), 1);
        assert_eq!(on(&[("prometheus", "metrale-gpu-sys/nvtx")]), 1);
        assert_eq!(on(&[("metrale-gpu-sys", "dep:metrale-gpu-sys")]), 1);
    }

    #[test]
    fn libraries_ask_for_no_protobuf_and_know_loom_only_under_the_cfg() {
        let optional = |used: &mut Dependency| used.optional = true;
        let asks = |used: &mut Dependency| {
            (used.optional, used.features) = (true, vec!["protobuf-protox".to_owned()]);
        };
        let protobuf = [("prometheus", "prometheus-client/prometheus_protobuf")];
        let under = |target: &'static str| {
            move |used: &mut Dependency| used.target = Some(target.parse().expect("a target"))
        };
        for library in LIBRARIES {
            let on = [("prometheus", "dep:prometheus-client")];
            assert_eq!(with(library, "prometheus-client", &on, optional), 0);
            assert_eq!(with(library, "prometheus-client", &on, |_| ()), 1);
            assert_eq!(with(library, "prometheus-client", &on, asks), 1);
            assert_eq!(with(library, "prometheus-client", &protobuf, optional), 1);
            assert_eq!(with(library, "loom", &[], under(LOOM)), 0);
            assert_eq!(with(library, "loom", &[], |_| ()), 1);
            assert_eq!(with(library, "loom", &[], under("cfg(unix)")), 1);
        }
        assert_eq!(with("metrale-replay", "prometheus-client", &[], asks), 0);
    }
}
