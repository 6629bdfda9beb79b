// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule `spdx`: every source file says its licence in its first line (a script in
//! its second, after the `#!`).

use super::{Violation, tree::File};

const LINE: &str = "SPDX-License-Identifier: MIT OR Apache-2.0";

pub(super) fn check(file: &File) -> Vec<Violation> {
    let mut lines = file.text.lines();
    let mut first = lines.next().unwrap_or_default();
    let script = first.starts_with("#!") && !file.is_rust();
    if script {
        first = lines.next().unwrap_or_default();
    }
    let hash = [".toml", ".sh", ".yml", ".yaml", ".py"];
    let mark = if file.is_rust() {
        "//"
    } else if script || hash.iter().any(|ending| file.path.ends_with(ending)) {
        "#"
    } else {
        return Vec::new();
    };
    let expected = format!("{mark} {LINE}");
    if first == expected {
        return Vec::new();
    }
    let line = 1 + usize::from(script);
    vec![file.at(line, "spdx", format!("this line must be `{expected}`"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fires(path: &str, text: &str) -> bool {
        !check(&File::new(path, text)).is_empty()
    }

    #[test]
    fn fires_where_the_line_is_not_first() {
        let rust = format!("// {LINE}\nfn a() {{}}\n");
        let hash = format!("# {LINE}\n");
        assert!(!fires("a.rs", &rust));
        assert!(fires("a.rs", &format!("\n{rust}")));
        assert!(fires("a.rs", &hash.replace("# ", "//")));
        assert!(fires("a.rs", "// SPDX-License-Identifier: MIT\n"));
        assert!(fires("a.rs", ""));
        for path in ["a.toml", "a.sh", ".github/workflows/a.yml"] {
            assert!(!fires(path, &hash), "{path}");
            assert!(fires(path, "key = 1\n"), "{path}");
        }
        assert!(!fires(".ci/run", &format!("#!/bin/sh\n{hash}")));
        assert!(fires(".ci/run", "#!/bin/sh\nset -e\n"));
        assert!(!fires("Cargo.lock", "version = 4\n"));
        assert!(!fires("README.md", "# metrale\n"));
    }
}
