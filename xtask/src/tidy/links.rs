// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule `links`: a relative link in a Markdown file leads to a file of the project.

use pulldown_cmark::{Event, Parser, Tag};

use super::{Violation, tree::File};

/// Checks the links of a Markdown file; `exists` answers for a path from the root.
pub(super) fn check(file: &File, exists: &dyn Fn(&str) -> bool) -> Vec<Violation> {
    if !file.path.ends_with(".md") {
        return Vec::new();
    }
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut found = Vec::new();
    for (event, range) in Parser::new(&file.text).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else {
            continue;
        };
        let problem = match resolve(folder, &dest_url) {
            Target::Elsewhere => continue,
            Target::Outside => "leads out of the project",
            Target::Inside(path) if exists(&path) => continue,
            Target::Inside(_) => "leads nowhere",
        };
        let line = 1 + file.text[..range.start].matches('\n').count();
        found.push(file.at(line, "links", format!("`{dest_url}` {problem}")));
    }
    found
}

#[derive(Debug, PartialEq, Eq)]
enum Target {
    /// Another site, or a heading of the same file.
    Elsewhere,
    /// Above the root.
    Outside,
    /// A path from the root.
    Inside(String),
}

fn resolve(folder: &str, link: &str) -> Target {
    let path = link.split(['#', '?']).next().unwrap_or_default();
    let scheme = path.split_once(':').is_some_and(|(scheme, _)| !scheme.contains('/'));
    if path.is_empty() || scheme {
        return Target::Elsewhere;
    }
    if path.starts_with('/') {
        return Target::Outside;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return Target::Outside;
                }
            }
            part => parts.push(part),
        }
    }
    Target::Inside(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_against_the_files_folder() {
        let inside = |path: &str| Target::Inside(path.to_owned());
        assert_eq!(resolve("", "docs/a.md#part"), inside("docs/a.md"));
        assert_eq!(resolve("docs", "../README.md"), inside("README.md"));
        assert_eq!(resolve("docs/x", "./b/"), inside("docs/x/b"));
        assert_eq!(resolve("docs", "../../a.md"), Target::Outside);
        assert_eq!(resolve("docs", "/a.md"), Target::Outside);
        assert_eq!(resolve("docs", "#part"), Target::Elsewhere);
        assert_eq!(resolve("docs", "https://a.org/b.md"), Target::Elsewhere);
        assert_eq!(resolve("docs", "mailto:a@b.org"), Target::Elsewhere);
    }

    #[test]
    fn fires_on_links_that_lead_nowhere() {
        let text = "# a\n\n[ok](b.md) `[code](x.md)` ![image](no.svg)\n\n[ref][r]\n\n```\n[fence](x.md)\n```\n\n[r]: gone.md\n";
        let file = File::new("docs/a.md", text);
        let found = check(&file, &|path| path == "docs/b.md");
        let seen: Vec<_> = found.iter().map(|v| (v.line, v.message.as_str())).collect();
        assert_eq!(seen, [(3, "`no.svg` leads nowhere"), (5, "`gone.md` leads nowhere")]);
        assert_eq!(check(&File::new("a.rs", text), &|_| false), []);
    }
}
