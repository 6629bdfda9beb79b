// SPDX-License-Identifier: MIT OR Apache-2.0
//! What calls answer. No panic leaves through here, and why a call failed is kept
//! for the thread that made it.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a call came to. Where it is neither `METRALE_STATUS_OK` nor
/// `METRALE_STATUS_NOTHING`, `metrale_last_error` tells why.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// There is nothing to give, or not yet.
    Nothing = 1,
    /// An argument cannot be used: the text says which one.
    Argument = 2,
    /// The program was built for another version of the header.
    Abi = 3,
    /// There is no usable driver or device.
    Driver = 4,
    /// No context is current, or it could not be made current.
    Context = 5,
    /// The driver made too few events, or the system no thread.
    Resources = 6,
    /// It is too late for that, or it was done already: the text says which.
    Refused = 7,
    /// A fault of the library, which was caught and counted: please report it.
    Panicked = 8,
    /// A call that was made for the application was not accepted by the driver: `result` and
    /// the text have what it answered.
    Call = 9,
}

/// Why a call is not done.
#[derive(Debug)]
pub(crate) struct Fault(pub(crate) Status, pub(crate) String);

static PANICS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs what a function does. All functions that do more than return a constant
/// go through here.
#[inline]
pub(crate) fn call(body: impl FnOnce() -> Result<Status, Fault>) -> Status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => status,
        Ok(Err(Fault(status, text))) => keep(status, text),
        Err(payload) => panicked(payload),
    }
}

#[cold]
fn panicked(payload: Box<dyn Any + Send>) -> Status {
    // Relaxed: a count, which orders nothing.
    PANICS.fetch_add(1, Ordering::Relaxed);
    let told = (payload.downcast_ref::<String>().map(String::as_str))
        .or_else(|| payload.downcast_ref::<&str>().copied());
    let text = format!("metrale failed: {}", told.unwrap_or("it did not say why"));
    // Its drop might panic again.
    std::mem::forget(payload);
    keep(Status::Panicked, text)
}

#[cold]
fn keep(status: Status, text: String) -> Status {
    let text = c_string(text);
    // None while the thread ends: nobody asks any more.
    let _ = LAST.try_with(|last| last.replace(text));
    status
}

/// A text up to its first NUL.
pub(crate) fn c_string(text: String) -> CString {
    CString::new(text).unwrap_or_else(|error| {
        let end = error.nul_position();
        let mut bytes = error.into_vec();
        bytes.truncate(end);
        CString::new(bytes).unwrap_or_default()
    })
}

/// Why the last call of this thread failed that did fail; empty before. The
/// string is the library's, good until another call of this thread fails.
/// Any thread, at any time: each has its own text.
#[unsafe(no_mangle)]
pub extern "C" fn metrale_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// How often a call answered `METRALE_STATUS_PANICKED` in this process.
/// Any thread, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn metrale_panics() -> u64 {
    // Relaxed: a count, which orders nothing.
    PANICS.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::{Fault, Status, c_string, call, metrale_last_error, metrale_panics};
    use std::ffi::CStr;

    fn last() -> &'static str {
        // SAFETY: a C string, which no other call of this thread replaces meanwhile.
        unsafe { CStr::from_ptr(metrale_last_error()) }.to_str().unwrap()
    }

    #[test]
    fn a_panic_is_caught_counted_and_told() {
        let before = metrale_panics();
        assert_eq!(call(|| panic!("row {} is missing", 7)), Status::Panicked);
        assert_eq!(last(), "metrale failed: row 7 is missing");
        assert_eq!(call(|| panic!("no row")), Status::Panicked);
        assert_eq!(last(), "metrale failed: no row");
        assert_eq!(call(|| std::panic::panic_any(7)), Status::Panicked);
        assert_eq!(last(), "metrale failed: it did not say why");
        assert_eq!(metrale_panics(), before + 3);
    }

    #[test]
    fn a_thread_has_its_own_text_and_keeps_it() {
        let fail = |text: &str| call(|| Err(Fault(Status::Refused, text.to_owned())));
        assert_eq!(last(), "");
        assert_eq!(fail("too late"), Status::Refused);
        assert_eq!(call(|| Ok(Status::Nothing)), Status::Nothing);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(last(), "");
                fail("elsewhere");
            });
        });
        assert_eq!(last(), "too late");
    }

    #[test]
    fn a_text_ends_at_its_first_nul() {
        assert_eq!(c_string("ab\0c\0".to_owned()), c"ab".to_owned());
        assert_eq!(c_string("abc".to_owned()), c"abc".to_owned());
    }
}
