// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of opaque handles, one table per kind of object.
//!
//! A handle is a made-up address; nothing lies behind it. The free list is
//! last in, first out, so the next object made gets the address of the one
//! just destroyed, as the real driver does for streams. A handle is stale when
//! its place is empty.

use metrale_gpu_sys::cuda::Status;

/// Objects of one kind, found by handle in constant time.
#[derive(Debug)]
pub(crate) struct Table<T> {
    base: u64,
    places: Vec<Option<T>>,
    free: Vec<usize>,
}

/// Distance between two handles of one kind, a power of two; all bases are
/// multiples of it.
pub(crate) const STRIDE: u64 = 0x80;

impl<T> Table<T> {
    /// An empty table whose handles start at `base`. Bases of two kinds are far
    /// apart, so that a handle of one kind never names an object of another.
    pub(crate) const fn new(base: u64) -> Self {
        Self { base, places: Vec::new(), free: Vec::new() }
    }

    /// Stores the object and returns its handle, never 0.
    pub(crate) fn insert(&mut self, object: T) -> u64 {
        let place = if let Some(place) = self.free.pop() {
            place
        } else {
            self.places.push(None);
            self.places.len() - 1
        };
        if let Some(slot) = self.places.get_mut(place) {
            *slot = Some(object);
        }
        self.base + place as u64 * STRIDE
    }

    fn place(&self, handle: u64) -> Option<usize> {
        let offset = handle.checked_sub(self.base)?;
        if offset % STRIDE != 0 {
            return None;
        }
        usize::try_from(offset / STRIDE).ok()
    }

    /// The live object of that handle.
    pub(crate) fn get(&self, handle: u64) -> Option<&T> {
        self.places.get(self.place(handle)?)?.as_ref()
    }

    /// The live object of that handle.
    pub(crate) fn get_mut(&mut self, handle: u64) -> Option<&mut T> {
        let place = self.place(handle)?;
        self.places.get_mut(place)?.as_mut()
    }

    /// The live object of a handle that a caller gives: `null` for NULL, 400 and a stroke on
    /// the count of stale uses for a dead one.
    pub(crate) fn find(
        &mut self,
        handle: u64,
        null: Status,
        stale_uses: &mut u64,
    ) -> Result<&mut T, Status> {
        match self.get_mut(handle) {
            Some(found) => Ok(found),
            None if handle == 0 => Err(null),
            None => {
                *stale_uses += 1;
                Err(Status::ERROR_INVALID_HANDLE)
            }
        }
    }

    /// Takes the object out; its handle is the next to be given out again.
    pub(crate) fn remove(&mut self, handle: u64) -> Option<T> {
        let place = self.place(handle)?;
        let object = self.places.get_mut(place)?.take()?;
        self.free.push(place);
        Some(object)
    }

    /// Live objects with their handles, in order of address.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let base = self.base;
        self.places.iter().enumerate().filter_map(move |(place, object)| {
            Some((base + place as u64 * STRIDE, object.as_ref()?))
        })
    }

    /// Live objects with their handles, in order of address.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        let base = self.base;
        self.places.iter_mut().enumerate().filter_map(move |(place, object)| {
            Some((base + place as u64 * STRIDE, object.as_mut()?))
        })
    }

    /// Handles of the live objects that `keep` says no to, in order of address.
    pub(crate) fn handles_where(&self, test: impl Fn(&T) -> bool) -> Vec<u64> {
        self.iter().filter(|(_, object)| test(object)).map(|(handle, _)| handle).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn an_address_is_given_out_again_at_once_and_stale_until_then() {
        let mut table = Table::new(0x1000);
        let a = table.insert('a');
        let b = table.insert('b');
        assert_eq!((a, b), (0x1000, 0x1080));
        assert_eq!(table.remove(a), Some('a'));
        assert_eq!(table.get(a), None);
        assert_eq!(table.remove(a), None);
        assert_eq!(table.insert('c'), a);
        assert_eq!(table.get(a), Some(&'c'));
    }

    #[test]
    fn foreign_and_crooked_handles_find_nothing() {
        let mut table = Table::new(0x1000);
        let a = table.insert('a');
        for handle in [0, 1, 2, a + 1, a + 0x80, a - 0x80, u64::MAX] {
            assert_eq!(table.get(handle), None, "{handle:#x}");
        }
    }
}
