// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel with its arguments, as a graph's node keeps it.

use std::sync::Arc;

/// Copies of a kernel's arguments, where `cuGraphKernelNodeGetParams` can lend
/// them out. Each begins at a word, which is aligned for any PTX type.
#[derive(Debug)]
pub(crate) struct Arguments {
    words: Box<[u128]>,
    /// Addresses within `words`.
    addresses: Box<[usize]>,
}

impl Arguments {
    pub(crate) fn new(values: &[Vec<u8>]) -> Self {
        let mut words = Vec::new();
        let mut starts = Vec::with_capacity(values.len());
        for value in values {
            starts.push(words.len());
            for chunk in value.chunks(size_of::<u128>()) {
                let mut word = [0; size_of::<u128>()];
                for (to, from) in word.iter_mut().zip(chunk) {
                    *to = *from;
                }
                words.push(u128::from_ne_bytes(word));
            }
        }
        let words = words.into_boxed_slice();
        let base = words.as_ptr().expose_provenance();
        let address = |start: usize| base + start * size_of::<u128>();
        let addresses = starts.into_iter().map(address).collect();
        Self { words, addresses }
    }

    /// The array of pointers that a launch takes.
    pub(crate) const fn lent(&self) -> *const usize {
        self.addresses.as_ptr()
    }

    /// The values, each filled up with zeros to whole words.
    pub(crate) const fn words(&self) -> &[u128] {
        &self.words
    }
}

impl PartialEq for Arguments {
    /// Of one function: where the values lie says nothing.
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for Arguments {}

/// A launch without a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// A function, or a library's kernel.
    pub(crate) function: u64,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    /// How long it runs.
    pub(crate) ns: u64,
    /// Shared by the copies of a node.
    pub(crate) arguments: Arc<Arguments>,
}

#[cfg(test)]
mod tests {
    use super::Arguments;

    #[test]
    fn arguments_are_lent_as_they_were_given() {
        let given = Arguments::new(&[vec![1, 2, 3, 4], vec![9; 20], vec![7; 8]]);
        let read = |place: usize, bytes: usize| {
            // SAFETY: there are three addresses.
            let address = unsafe { given.lent().add(place) };
            // SAFETY: as above.
            let address = unsafe { address.read() };
            assert_eq!(address % 16, 0);
            let value: *const u8 = std::ptr::with_exposed_provenance(address);
            // SAFETY: the argument has so many bytes.
            unsafe { std::slice::from_raw_parts(value, bytes) }.to_vec()
        };
        assert_eq!(read(0, 4), [1, 2, 3, 4]);
        assert_eq!(read(1, 20), [9; 20]);
        assert_eq!(read(2, 8), [7; 8]);
        let again = Arguments::new(&[vec![1, 2, 3, 4], vec![9; 20], vec![7; 8]]);
        let other = Arguments::new(&[vec![1, 2, 3, 5], vec![9; 20], vec![7; 8]]);
        assert_eq!(given, again);
        assert_ne!(given, other);
    }
}
