// SPDX-License-Identifier: MIT OR Apache-2.0
//! A reader of OpenMetrics pages that takes what the specification allows and
//! nothing else, as far as these metrics go: no exemplars, no timestamps.

use std::collections::{BTreeMap, BTreeSet};

type Labels = Vec<(String, String)>;

/// Name and labels, however a page spells and orders them.
pub(super) type Series = (String, Labels);

/// A series as a page has it.
pub(super) fn series(spelled: &str) -> Result<Series, String> {
    let (name, mut labels) = match spelled.split_once('{') {
        Some((name, labels)) => (name, read_labels(labels)?),
        None => (spelled, Labels::new()),
    };
    for (_, bound) in labels.iter_mut().filter(|(name, _)| name == "le") {
        let number: f64 = bound.parse().map_err(|_| format!("le: {spelled}"))?;
        *bound = number.to_string();
    }
    labels.sort();
    if labels.windows(2).any(|two| two[0].0 == two[1].0) {
        return Err(format!("a label twice: {spelled}"));
    }
    Ok((name.to_owned(), labels))
}

/// The value of each series.
pub(super) fn read(page: &str) -> Result<BTreeMap<Series, f64>, String> {
    let body = page.strip_suffix("# EOF\n").ok_or("no EOF")?;
    let mut families: BTreeSet<&str> = BTreeSet::new();
    let (mut family, mut metric_type, mut has_samples) = ("", "", false);
    let mut samples = BTreeMap::new();
    // Of each histogram the last bucket's bound and count, and the whole count.
    let (mut buckets, mut counts) = (BTreeMap::new(), BTreeMap::new());
    for line in body.lines() {
        let no = |why: &str| Err(format!("{why}: {line}"));
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (word, name, text) = (words.next(), words.next(), words.next());
            let (Some(word), Some(name), Some(text)) = (word, name, text) else {
                return no("a comment");
            };
            if name != family {
                if !families.insert(name) {
                    return no("a family in two places");
                }
                (family, metric_type, has_samples) = (name, "", false);
            } else if has_samples {
                return no("a description behind samples");
            }
            match word {
                "HELP" => {}
                "TYPE" if metric_type.is_empty() => metric_type = text,
                "UNIT" if name.ends_with(&format!("_{text}")) => {}
                _ => return no("told twice, or nothing that is known"),
            }
            continue;
        }
        let Some((spelled, value)) = line.rsplit_once(' ') else {
            return no("no value");
        };
        let (name, labels) = series(spelled)?;
        let value: f64 = value.parse().map_err(|_| format!("no number: {line}"))?;
        let suffix = name.strip_prefix(family).unwrap_or("-");
        let is_fit = match metric_type {
            "counter" => suffix == "_total" && value >= 0.0,
            "gauge" => suffix.is_empty(),
            "info" => suffix == "_info" && value == 1.0,
            "histogram" => {
                let is_bound = |(name, _): &(String, String)| name == "le";
                let (bounds, others): (Labels, Labels) = labels.iter().cloned().partition(is_bound);
                let bound = bounds.first().and_then(|(_, bound)| bound.parse().ok());
                let of = (family, others);
                match (suffix, bound) {
                    ("_bucket", Some(bound)) => {
                        let before: Option<(f64, f64)> = buckets.insert(of, (bound, value));
                        before.is_none_or(|(le, count)| bound > le && value >= count)
                    }
                    ("_count", None) => counts.insert(of, (f64::INFINITY, value)).is_none(),
                    ("_sum", None) => value >= 0.0,
                    _ => false,
                }
            }
            _ => false,
        };
        if !is_fit {
            return no("no sample of its family");
        }
        has_samples = true;
        if samples.insert((name, labels), value).is_some() {
            return no("a series twice");
        }
    }
    if buckets != counts {
        return Err(format!("last buckets {buckets:?}, counts {counts:?}"));
    }
    Ok(samples)
}

/// `a="1",b="2"}`.
fn read_labels(text: &str) -> Result<Labels, String> {
    let (mut rest, mut labels) = (text, Labels::new());
    loop {
        let (name, quoted) = rest.split_once("=\"").ok_or("no value of a label")?;
        let is_letter =
            |at, c: char| c.is_ascii_alphabetic() || c == '_' || at > 0 && c.is_ascii_digit();
        if name.is_empty() || !name.char_indices().all(|(at, c)| is_letter(at, c)) {
            return Err(format!("no label's name: {name}"));
        }
        let (mut value, mut chars) = (String::new(), quoted.chars());
        loop {
            match chars.next().ok_or("an open quote")? {
                '"' => break,
                '\\' => match chars.next() {
                    Some(c @ ('"' | '\\')) => value.push(c),
                    Some('n') => value.push('\n'),
                    other => return Err(format!("an escape: {other:?}")),
                },
                c => value.push(c),
            }
        }
        labels.push((name.to_owned(), value));
        rest = match chars.as_str() {
            "}" => return Ok(labels),
            more => more.strip_prefix(',').ok_or("no comma")?,
        };
    }
}

#[test]
fn it_refuses_what_a_server_may_refuse() {
    let page = "# HELP a A\n# TYPE a counter\na_total{b=\"1\"} 1\n";
    let eof = "# EOF\n";
    assert!(read(&format!("{page}{eof}")).is_ok());
    for bad in [
        page.to_owned(),
        format!("{page}{page}{eof}"),
        format!("{page}a_total{{b=\"1\"}} 2\n{eof}"),
        format!("{page}a_total{{b=\"1\",b=\"2\"}} 2\n{eof}"),
        format!("{page}a{{b=\"2\"}} 2\n{eof}"),
        format!("{page}a_total{{b=\"\\x\"}} 2\n{eof}"),
        format!(
            "{page}# TYPE h histogram\nh_bucket{{le=\"1\"}} 2\nh_bucket{{le=\"+Inf\"}} 1\n{eof}"
        ),
        format!("{page}# TYPE h histogram\nh_bucket{{le=\"+Inf\"}} 1\nh_count 2\n{eof}"),
        format!("{page}# TYPE g gauge\ng 1\n{page}{eof}"),
    ] {
        assert!(read(&bad).is_err(), "{bad}");
    }
}
