// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names by number.
//!
//! Invariant: two names share a number if, and only if, all their bytes are
//! equal. Kernel names that differ only after a kilobyte are common.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A set of byte strings, each with its index.
#[derive(Clone, Debug, Default)]
pub struct Names {
    list: Vec<Arc<[u8]>>,
    index: HashMap<Arc<[u8]>, u32>,
}

impl Names {
    /// The number of `name`, given out on first sight.
    pub fn intern(&mut self, name: &[u8]) -> u32 {
        if let Some(&index) = self.index.get(name) {
            return index;
        }
        let index = self.list.len() as u32;
        let shared: Arc<[u8]> = name.into();
        self.list.push(shared.clone());
        self.index.insert(shared, index);
        index
    }

    /// The bytes of a name; empty for a number never given out.
    pub fn get(&self, index: u32) -> &[u8] {
        self.list.get(index as usize).map_or(&[], |name| name)
    }

    /// The name as text, with anything that is not UTF-8 replaced. Two names
    /// may read the same; [`Names::texts`] keeps them apart.
    pub fn text(&self, index: u32) -> String {
        String::from_utf8_lossy(self.get(index)).into_owned()
    }

    /// The given names as text, no two of them equal: where replacing invalid
    /// bytes makes two alike, the later one gets a number.
    pub fn texts(&self, indices: &[u32]) -> Vec<String> {
        let genuine = |index: u32| std::str::from_utf8(self.get(index)).ok();
        let mut seen: HashSet<Cow<'_, str>> = HashSet::new();
        if indices.iter().any(|&index| genuine(index).is_none()) {
            // Genuine text first: a replaced name must not take one away.
            seen.extend(indices.iter().filter_map(|&i| genuine(i)).map(Cow::Borrowed));
        }
        // Per replaced text, the last number given out.
        let mut last: HashMap<String, u32> = HashMap::new();
        let mut unique = |text: String| {
            let n = last.entry(text.clone()).or_insert(0);
            loop {
                *n += 1;
                let label = match *n {
                    1 => text.clone(),
                    n => format!("{text} ~{n}"),
                };
                if seen.insert(Cow::Owned(label.clone())) {
                    return label;
                }
            }
        };
        indices
            .iter()
            .map(|&index| match genuine(index) {
                Some(text) => text.to_owned(),
                None => unique(self.text(index)),
            })
            .collect()
    }

    /// Gives back spare memory, once no more names come.
    pub(crate) fn shrink(&mut self) {
        self.list.shrink_to_fit();
        self.index.shrink_to_fit();
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_every_byte() {
        let mut names = Names::default();
        let long = vec![b'k'; 70_000];
        let mut other = long.clone();
        other[69_999] = b'j';
        assert_ne!(names.intern(&long), names.intern(&other));
        assert_eq!(names.intern(&long), 0);
        assert_eq!(names.len(), 2);
    }

    #[test]
    fn invalid_bytes_never_merge_two_names() {
        let mut names = Names::default();
        let a = names.intern(b"k\xff");
        let b = names.intern(b"k\xfe");
        let c = names.intern("k\u{fffd}".as_bytes());
        let texts = names.texts(&[a, b, c]);
        assert_eq!(texts[2], "k\u{fffd}");
        assert_eq!(texts[0], "k\u{fffd} ~2");
        assert_eq!(texts[1], "k\u{fffd} ~3");
    }
}
