// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule `links`: a relative link in a Markdown file leads to a file of the project.

use std::path::Path;

use pulldown_cmark::{Event, Parser, Tag};

use super::{Violation, tree::File};

/// Checks the links of a Markdown file of the project at `root`.
pub(super) fn check(file: &File, root: &Path) -> Vec<Violation> {
    if !file.path.ends_with(".md") {
        return Vec::new();
    }
    let folder = root.join(&file.path).parent().unwrap_or(root).to_path_buf();
    let is_inside = |path: &str| {
        let (found, root) = (folder.join(path).canonicalize(), root.canonicalize());
        found.is_ok_and(|found| root.is_ok_and(|root| found.starts_with(root)))
    };
    let mut found = Vec::new();
    for (event, range) in Parser::new(&file.text).into_offset_iter() {
        if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event {
            let path = dest_url.split(['#', '?']).next().unwrap_or_default();
            // Another site, or a heading of the same file.
            let is_elsewhere = path.contains(':') || path.is_empty();
            if !is_elsewhere && !is_inside(path) {
                let line = 1 + file.text[..range.start].matches('\n').count();
                let message = format!("`{dest_url}` leads to no file of the project");
                found.push(file.at(line, "links", message));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fires_on_links_that_lead_nowhere_or_out_of_the_project() {
        let outer = tempfile::tempdir().expect("a folder");
        let root = outer.path().join("project");
        std::fs::create_dir_all(root.join("docs")).expect("docs");
        for path in ["docs/b.md", "a.md", "../out.md"] {
            std::fs::write(root.join(path), "").expect("file");
        }
        let text = "\
[ok](b.md) `[code](x.md)` ![image](no.svg)

[ref][r]

```
[fence](x.md)
```

[up](../a.md#part) [itself](#a) [site](https://a.org/b.md) [me](mailto:a@b.org)
[out](../../out.md) [root](/a.md)

[r]: gone.md
";
        let found = check(&File::new("docs/a.md", text), &root);
        let lines: Vec<_> = found.iter().map(|violation| violation.line).collect();
        assert_eq!(lines, [1, 3, 10, 10]);
        assert_eq!(check(&File::new("a.rs", text), &root), []);
    }
}
