// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pointers from the other side, looked at before they are used.

use crate::status::{Fault, Status};
use std::ffi::{CStr, c_char};
use std::ptr::NonNull;

/// Where an answer goes, which need not hold anything yet; `None`: nobody asks.
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(Option<NonNull<T>>);

impl<T> Out<T> {
    /// # Safety
    /// Where `pointer` is neither NULL nor misaligned, a `T` can be written there
    /// while the value is used, and no other thread looks.
    pub(crate) unsafe fn new(pointer: *mut T, what: &str) -> Result<Self, Fault> {
        let fit = NonNull::new(pointer).filter(|place| place.is_aligned());
        fit.map(|place| Self(Some(place))).ok_or_else(|| unfit(pointer.addr(), what))
    }

    /// As [`new`](Self::new); NULL is no fault.
    ///
    /// # Safety
    /// As [`new`](Self::new)'s.
    pub(crate) unsafe fn or_null(pointer: *mut T, what: &str) -> Result<Self, Fault> {
        if pointer.is_null() {
            return Ok(Self(None));
        }
        // SAFETY: promised by the caller.
        unsafe { Self::new(pointer, what) }
    }

    #[inline]
    pub(crate) fn put(self, value: T) {
        if let Some(place) = self.0 {
            // SAFETY: promised to `new`.
            unsafe { place.write(value) };
        }
    }
}

/// # Safety
/// Where `pointer` is neither NULL nor misaligned, a `T` is there for `'a`, and
/// nothing writes to it meanwhile.
#[inline]
pub(crate) unsafe fn get<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Fault> {
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(unfit(pointer.addr(), what));
    }
    // SAFETY: promised by the caller.
    Ok(unsafe { &*pointer })
}

/// As [`get`]; NULL is no fault.
///
/// # Safety
/// As [`get`]'s.
#[inline]
pub(crate) unsafe fn get_or_null<'a, T>(
    pointer: *const T,
    what: &str,
) -> Result<Option<&'a T>, Fault> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: promised by the caller.
    unsafe { get(pointer, what) }.map(Some)
}

/// # Safety
/// Where `pointer` is neither NULL nor misaligned, a `T` is there for `'a`, and
/// nobody else reads or writes it meanwhile.
#[inline]
pub(crate) unsafe fn get_mut<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Fault> {
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(unfit(pointer.addr(), what));
    }
    // SAFETY: promised by the caller.
    Ok(unsafe { &mut *pointer })
}

/// # Safety
/// `pointer` is NULL or a C string for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Fault> {
    if pointer.is_null() {
        return Err(unfit(0, what));
    }
    // SAFETY: promised by the caller.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Fault(Status::Argument, format!("{what} is not UTF-8: {text:?}")))
}

/// # Safety
/// Where `pointer` is neither NULL nor misaligned, `count` of `T` are there for
/// `'a`, and nothing writes to them meanwhile.
pub(crate) unsafe fn list<'a, T>(
    pointer: *const T,
    count: usize,
    what: &str,
) -> Result<&'a [T], Fault> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(unfit(pointer.addr(), what));
    }
    if count > isize::MAX as usize / size_of::<T>().max(1) {
        let text = format!("{count} of {what} are more than memory holds");
        return Err(Fault(Status::Argument, text));
    }
    // SAFETY: promised by the caller; the length was looked at.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

#[cold]
fn unfit(address: usize, what: &str) -> Fault {
    let why = if address == 0 { "NULL" } else { "misaligned: it points to something else" };
    Fault(Status::Argument, format!("{what} is {why}"))
}

#[cfg(test)]
mod tests {
    use super::{Fault, Out, Status, get, get_mut, get_or_null, list, text};
    use std::fmt::Debug;
    use std::ptr::{null, null_mut, without_provenance, without_provenance_mut};

    fn told<T>(answer: Result<T, Fault>) -> String {
        let Err(Fault(Status::Argument, text)) = answer else {
            panic!("it was taken");
        };
        text
    }

    fn taken<T: Debug + PartialEq>(answer: Result<T, Fault>, expected: T) {
        assert_eq!(answer.unwrap(), expected);
    }

    /// What each way to take a word says of that address.
    fn refusals(address: usize) -> [String; 4] {
        let (shared, own) = (without_provenance(address), without_provenance_mut(address));
        [
            // SAFETY: the address is refused, and so in the next ones.
            told(unsafe { get::<u64>(shared, "step") }),
            // SAFETY: as above.
            told(unsafe { get_mut::<u64>(own, "step") }),
            // SAFETY: as above.
            told(unsafe { Out::<u64>::new(own, "step") }),
            // SAFETY: as above.
            told(unsafe { list::<u64>(shared, 1, "step") }),
        ]
    }

    #[test]
    fn what_cannot_be_a_pointer_is_refused_by_its_name() {
        for text in refusals(0) {
            assert_eq!(text, "step is NULL");
        }
        for text in refusals(0x1003) {
            assert!(text.starts_with("step is misaligned"), "{text}");
        }
        // SAFETY: a misaligned address is refused.
        let refused = told(unsafe { get_or_null::<u64>(without_provenance(0x1003), "recorder") });
        assert!(refused.starts_with("recorder is misaligned"), "{refused}");
        // SAFETY: NULL is refused.
        assert_eq!(told(unsafe { text(null(), "name") }), "name is NULL");
        // SAFETY: a C string.
        let refused = told(unsafe { text(c"\xff".as_ptr(), "name") });
        assert!(refused.starts_with("name is not UTF-8"), "{refused}");
        // SAFETY: too many to be looked at.
        let refused = told(unsafe { list(&7_u64, usize::MAX, "lanes") });
        assert!(refused.contains("more than memory holds"), "{refused}");
    }

    #[test]
    fn what_can_be_one_is_used() {
        let mut word = 7_u64;
        // SAFETY: a live word.
        taken(unsafe { get(&word, "word") }, &7);
        // SAFETY: the same.
        taken(unsafe { get_or_null(&word, "word") }, Some(&7));
        // SAFETY: NULL, which is not used.
        taken(unsafe { get_or_null::<u64>(null(), "word") }, None);
        // SAFETY: NULL with no word behind it.
        taken(unsafe { list::<u64>(null(), 0, "words") }, &[]);
        // SAFETY: a live word.
        taken(unsafe { list(&word, 1, "words") }, &[7]);
        // SAFETY: a C string.
        taken(unsafe { text(c"decode".as_ptr(), "name") }, "decode");
        // SAFETY: a live word that nobody else has.
        unsafe { Out::new(&mut word, "word") }.unwrap().put(8);
        // SAFETY: NULL, which is not used.
        unsafe { Out::or_null(null_mut(), "word") }.unwrap().put(9_u64);
        // SAFETY: the same.
        taken(unsafe { get_mut(&mut word, "word") }, &mut 8);
    }
}
