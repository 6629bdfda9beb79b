// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel names cut to a column.
//!
//! Invariant: names that differ never print alike. Template names often differ
//! only deep inside, where a plain cut would merge them.

use std::collections::{HashMap, HashSet};

/// One label of at most `width` characters (at least 24) for each of `names`,
/// no two labels equal where the names are not. Labels are printable ASCII and
/// the cut mark `…`.
pub fn shorten(names: &[&str], width: usize) -> Vec<String> {
    let width = width.max(24);
    // Names that a plain cut would merge, each group in order.
    let mut groups: HashMap<String, Vec<&str>> = HashMap::new();
    for &name in names {
        let group = groups.entry(cut(&printable(name), width)).or_default();
        if !group.contains(&name) {
            group.push(name);
        }
    }
    let mut taken: HashSet<String> = HashSet::new();
    let mut labels: HashMap<&str, String> = HashMap::new();
    names
        .iter()
        .map(|&name| {
            if let Some(label) = labels.get(name) {
                return label.clone();
            }
            let clean = printable(name);
            let plain = cut(&clean, width);
            let mut label = match groups.get(&plain).map(Vec::as_slice) {
                Some([first, second, ..]) => {
                    let other = if *first == name { second } else { first };
                    cut_around(&clean, &printable(other), width)
                }
                _ => plain,
            };
            let mut number = 1;
            while !taken.insert(label.clone()) {
                number += 1;
                let mark = format!(" ~{number}");
                label = cut(&clean, width - mark.len()) + &mark;
            }
            labels.insert(name, label.clone());
            label
        })
        .collect()
}

/// Printable ASCII of a name, without what says least: `void` and the
/// parameters of a function.
fn printable(name: &str) -> String {
    let name = name.strip_prefix("void ").unwrap_or(name);
    without_parameters(name)
        .chars()
        .map(|c| if (' '..='~').contains(&c) { c } else { '?' })
        .collect()
}

/// A name without the list in parentheses at its end.
fn without_parameters(name: &str) -> &str {
    let mut open = 0usize;
    for (at, c) in name.char_indices().rev() {
        match c {
            ')' => open += 1,
            '(' => open = open.saturating_sub(1),
            _ => {}
        }
        if open == 0 {
            let is_list = c == '(' && at > 0;
            return if is_list { &name[..at] } else { name };
        }
    }
    name
}

/// The begin and the end of a name: ASCII, so a byte is a character.
fn cut(name: &str, width: usize) -> String {
    if name.len() <= width {
        return name.to_owned();
    }
    let tail = width / 3;
    let head = width - 1 - tail;
    format!("{}…{}", &name[..head], &name[name.len() - tail..])
}

/// The begin of a name and the place where it parts from `other`.
fn cut_around(name: &str, other: &str, width: usize) -> String {
    let common = name.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let head = width / 2;
    let rest = width - head - 1;
    if name.len() <= width || common <= head {
        return cut(name, width);
    }
    let from = (common - rest / 3).max(head).min(name.len() - rest);
    format!("{}…{}", &name[..head], &name[from..from + rest])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_cut_shows_where_names_part() {
        let name = |what: &str| {
            format!(
                "void at::elementwise_kernel<128, 4, at::{what}Functor<float, float, float> >(int, at::Array<char*, 3>)"
            )
        };
        let (add, mul) = (name("Add"), name("Mul"));
        let labels = shorten(&[&add, &mul, &add], 44);
        assert_ne!(labels[0], labels[1]);
        assert_eq!(labels[0], labels[2]);
        assert!(labels[0].contains("AddFunctor"), "{labels:?}");
        assert!(labels[1].contains("MulFunctor"), "{labels:?}");
        assert_eq!(shorten(&["void k", "k", "a\nb"], 44), ["k", "k ~2", "a?b"]);
        let overloads = ["f<(g)0>(int (*)(int))", "f<(g)0>(float)", "(anonymous)", "f)("];
        assert_eq!(shorten(&overloads, 44), ["f<(g)0>", "f<(g)0> ~2", "(anonymous)", "f)"]);
    }

    proptest! {
        #[test]
        fn different_names_never_merge(
            names in prop::collection::hash_set("(void )?[ab\u{1}é~ 2()]{0,3}x{0,60}[ab()]{0,2}", 1..60),
            width in 0usize..60,
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let labels = shorten(&names, width);
            let distinct: HashSet<&String> = labels.iter().collect();
            prop_assert_eq!(distinct.len(), names.len());
            for label in &labels {
                prop_assert!(label.chars().count() <= width.max(24), "{}", label);
            }
        }
    }
}
