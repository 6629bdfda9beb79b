// SPDX-License-Identifier: MIT OR Apache-2.0
//! An NVTX tool for tests. A process that is started with
//! `NVTX_INJECTION64_PATH` naming this library loads it at its first NVTX call,
//! as it would load a profiler, and every range it pushes or pops is written
//! down. At exit the file that `METRALE_NVTX_LOG` names holds a line for each:
//!
//! `thread TAB push|pop TAB domain TAB name TAB payload TAB category TAB colour`
//!
//! The default domain has the empty name; what is not given is `-`.
#![deny(missing_docs)]

mod abi;

use abi::{Attributes, CallbackTable, GetExportTable, Slot};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The lines so far.
static LINES: Mutex<String> = Mutex::new(String::new());
/// Names of domains; a handle is the index plus one.
static DOMAINS: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    static THREAD: u64 = {
        static THREADS: AtomicU64 = AtomicU64::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed)
    };
}

/// Called by NVTX once it has loaded the library. 1: at work; 0: NVTX unloads
/// it and goes on without.
///
/// # Safety
/// Called by NVTX, with its own function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(get: Option<GetExportTable>) -> c_int {
    let Some(get) = get else { return 0 };
    // SAFETY: NVTX's own function, which takes the number of a table.
    let table = unsafe { get(abi::CALLBACKS) }.cast::<CallbackTable>();
    if table.is_null() {
        return 0;
    }
    // SAFETY: not NULL, and the table that was asked for.
    let table = unsafe { &*table };
    let hooks: [(u32, usize, *const c_void); 8] = [
        (abi::CORE, 8, push_ex as *const c_void),
        (abi::CORE, 9, push_ascii as *const c_void),
        (abi::CORE, 11, pop as *const c_void),
        (abi::CORE2, 4, domain_push_ex as *const c_void),
        (abi::CORE2, 5, domain_pop as *const c_void),
        (abi::CORE2, 8, domain_name_category as *const c_void),
        (abi::CORE2, 12, domain_create as *const c_void),
        (abi::CORE2, 14, domain_destroy as *const c_void),
    ];
    for (module, callback, hook) in hooks {
        let Some(slot) = slot(table, module, callback) else {
            return 0;
        };
        // SAFETY: a slot of NVTX's table; nobody calls through it before this
        // function has returned.
        unsafe { *slot = hook };
    }
    // SAFETY: a function of this library, which stays loaded.
    let registered = unsafe { libc::atexit(write_log) };
    c_int::from(registered == 0)
}

/// Where NVTX keeps the function of a callback.
fn slot(table: &CallbackTable, module: u32, callback: usize) -> Option<*mut Slot> {
    let mut slots: *mut *mut Slot = std::ptr::null_mut();
    let mut count = 0u32;
    // SAFETY: NVTX's own function; both pointers are to live values.
    let found = unsafe { (table.module_functions)(module, &raw mut slots, &raw mut count) };
    if found == 0 || slots.is_null() || callback >= count as usize {
        return None;
    }
    // SAFETY: within the table, which has `count` entries.
    let entry = unsafe { slots.add(callback) };
    // SAFETY: as above.
    let slot = unsafe { *entry };
    (!slot.is_null()).then_some(slot)
}

extern "C" fn write_log() {
    let Some(path) = std::env::var_os("METRALE_NVTX_LOG") else {
        return;
    };
    if let Ok(lines) = LINES.lock() {
        // A test that finds no file says so; at exit nobody listens to us.
        let _ = std::fs::write(path, lines.as_str());
    }
}

fn line(what: &str, domain: &str, name: &str, rest: &str) {
    let thread = THREAD.try_with(|thread| *thread).unwrap_or(u64::MAX);
    if let Ok(mut lines) = LINES.lock() {
        let _ = writeln!(lines, "{thread}\t{what}\t{domain}\t{name}\t{rest}");
    }
}

fn name_of(domain: *mut c_void) -> String {
    let index = (domain as usize).wrapping_sub(1);
    let known = DOMAINS.lock().ok().and_then(|domains| domains.get(index).cloned());
    known.unwrap_or_else(|| "?".to_owned())
}

/// # Safety
/// `text` is NULL or a C string.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return "-".to_owned();
    }
    // SAFETY: not NULL, and a C string by this function's contract.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// # Safety
/// `attributes` is NULL or good.
unsafe fn pushed(domain: &str, attributes: *const Attributes) {
    if attributes.is_null() {
        return line("push", domain, "-", "-\t-\t-");
    }
    // SAFETY: not NULL, and good by this function's contract.
    let attributes = unsafe { &*attributes };
    let name = if attributes.message_type == abi::MESSAGE_ASCII {
        // SAFETY: a message of this type is a C string.
        unsafe { text(attributes.message) }
    } else {
        "-".to_owned()
    };
    let given = |given: bool, value: u64| {
        if given { value.to_string() } else { "-".to_owned() }
    };
    let payload = given(attributes.payload_type == abi::PAYLOAD_U64, attributes.payload);
    let category = given(attributes.category != 0, attributes.category.into());
    let colour = given(attributes.colour_type == abi::COLOUR_ARGB, attributes.colour.into());
    line("push", domain, &name, &format!("{payload}\t{category}\t{colour}"));
}

unsafe extern "C" fn push_ascii(name: *const c_char) -> c_int {
    // SAFETY: NVTX passes the caller's C string.
    line("push", "", &unsafe { text(name) }, "-\t-\t-");
    0
}

unsafe extern "C" fn push_ex(attributes: *const Attributes) -> c_int {
    // SAFETY: NVTX passes the caller's attributes.
    unsafe { pushed("", attributes) };
    0
}

unsafe extern "C" fn pop() -> c_int {
    line("pop", "", "-", "-\t-\t-");
    0
}

unsafe extern "C" fn domain_push_ex(domain: *mut c_void, attributes: *const Attributes) -> c_int {
    // SAFETY: NVTX passes the caller's attributes.
    unsafe { pushed(&name_of(domain), attributes) };
    0
}

unsafe extern "C" fn domain_pop(domain: *mut c_void) -> c_int {
    line("pop", &name_of(domain), "-", "-\t-\t-");
    0
}

unsafe extern "C" fn domain_name_category(domain: *mut c_void, category: u32, name: *const c_char) {
    // SAFETY: NVTX passes the caller's C string.
    let name = unsafe { text(name) };
    line("category", &name_of(domain), &name, &format!("-\t{category}\t-"));
}

unsafe extern "C" fn domain_create(name: *const c_char) -> *mut c_void {
    // SAFETY: NVTX passes the caller's C string.
    let name = unsafe { text(name) };
    let Ok(mut domains) = DOMAINS.lock() else {
        return std::ptr::null_mut();
    };
    domains.push(name);
    domains.len() as *mut c_void
}

unsafe extern "C" fn domain_destroy(domain: *mut c_void) {
    line("destroy", &name_of(domain), "-", "-\t-\t-");
}
