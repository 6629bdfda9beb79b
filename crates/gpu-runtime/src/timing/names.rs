// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which row of the kernel table a function has, and what it is called.
//!
//! 1. A function's row is its handle, as long as that handle was never
//!    forgotten. A forgotten handle gets a row number of its own, or the row it
//!    had before under the very same name: a row never takes on the name of
//!    another kernel.
//! 2. The row of a graph, region or copy is a number that its name was given. Row
//!    numbers have the top bit set, which no handle has: handles are addresses.
//!    Those of regions and copies are from [`FIRST_REGION`] on.
//! 3. The name that the application gave wins over the driver's. A name is the
//!    whole mangled one, of any length.
//! 4. A function met before costs a look-up without a lock. The lock is taken
//!    when a function is met, named or forgotten, and by readers; never during
//!    a driver call, and never in a forked child, where it may be held for ever:
//!    there is nothing to look up there, and nothing is remembered.
//! 5. All is bounded; what finds no room is counted.

use super::handles::KernelRef;
use super::process;
use metrale_telemetry::instrument::Counter;
use metrale_telemetry::runtime::{FIRST_REGION, KernelName, unpoisoned};
use metrale_telemetry::snapshot::RowKind;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Functions that are remembered: twice as many as the kernel table has rows.
const MAX_FUNCTIONS: usize = 1024;
/// Places for them, never more than half full.
const PLACES: usize = 2 * MAX_FUNCTIONS;
/// Names that are kept, retired ones and those of graphs and regions among them.
const MAX_NAMES: usize = 4 * MAX_FUNCTIONS;
/// Bytes of all names. An ordinary name has some hundreds.
const MAX_BYTES: usize = 16 << 20;
/// The first row number that is no handle.
const NUMBERS: u64 = 1 << 63;

/// Unique in the process: recorders may share a kernel table.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(NUMBERS);
/// The same.
static NEXT_REGION: AtomicU64 = AtomicU64::new(FIRST_REGION);

fn new_row(kind: RowKind) -> u64 {
    let next = match kind {
        RowKind::Region | RowKind::Copy => &NEXT_REGION,
        _ => &NEXT_NUMBER,
    };
    next.fetch_add(1, Ordering::Relaxed)
}

/// See the module.
pub(super) struct Names {
    /// The generation that they belong to.
    born: u32,
    places: Box<[FunctionPlace]>,
    is_full: AtomicBool,
    lost: Counter,
    book: Mutex<Book>,
}

/// A function that was met. Written under the lock only.
#[derive(Default)]
struct FunctionPlace {
    /// 0 until the place is taken, and then for ever this handle.
    func: AtomicU64,
    /// 0 once the handle was forgotten.
    row: AtomicU64,
    /// Nobody need ask for its name any more.
    is_asked: AtomicBool,
}

#[derive(Default)]
struct Book {
    /// Places taken.
    met: usize,
    bytes: usize,
    names: HashMap<u64, KernelName>,
    /// Rows that are numbers of their names.
    numbered: HashMap<(RowKind, Arc<str>), u64>,
    /// Rows that forgotten handles had.
    retired: Vec<(u64, u64)>,
}

/// What is known of a function that is met.
pub(super) enum Known {
    /// Nothing, and the driver was not asked.
    Nothing,
    /// What the driver said, if anything.
    Driver(Option<Vec<u8>>),
    /// What the application calls it.
    Application(Arc<str>),
}

impl Names {
    pub(super) fn new() -> Self {
        Self {
            born: process::generation(),
            places: (0..PLACES).map(|_| FunctionPlace::default()).collect(),
            is_full: AtomicBool::new(false),
            lost: Counter::new(),
            book: Mutex::default(),
        }
    }

    /// The row of a kernel; `None` where it has to be met first.
    pub(super) fn row(&self, kernel: KernelRef<'_>) -> Option<u64> {
        let func = kernel.handle();
        if func == 0 || func >= NUMBERS {
            return Some(func);
        }
        // Acquire: the row was written before the handle (partner: `meet`).
        let probe = self.probe(func, Ordering::Acquire);
        let Some((place, true)) = probe else {
            // A full book stays full: nothing would be learnt.
            return self.is_full.load(Ordering::Relaxed).then_some(func);
        };
        let is_settled = !kernel.is_loaded() || place.is_asked.load(Ordering::Relaxed);
        let row = place.row.load(Ordering::Relaxed);
        (row != 0 && is_settled).then_some(row)
    }

    /// The place of a handle and whether it is the handle's; else an empty one.
    fn probe(&self, func: u64, order: Ordering) -> Option<(&FunctionPlace, bool)> {
        // The Fibonacci hash of the kernel table.
        let first = func.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACES.trailing_zeros());
        let (head, tail) = self.places.split_at(first as usize);
        for place in tail.iter().chain(head) {
            match place.func.load(order) {
                0 => return Some((place, false)),
                found if found == func => return Some((place, true)),
                _ => {}
            }
        }
        None
    }

    /// The row of a function, which is remembered with what is known of it.
    #[cold]
    pub(super) fn meet(&self, func: u64, known: Known) -> u64 {
        let (text, by_application, is_asked) = match known {
            Known::Nothing => (None, false, false),
            Known::Driver(name) => (name.map(|name| text(&name)), false, true),
            Known::Application(name) => (Some(name), true, true),
        };
        let Some(mut book) = self.lock() else {
            return func;
        };
        let Some((place, is_met)) = self.probe(func, Ordering::Relaxed) else {
            return func;
        };
        let row = match place.row.load(Ordering::Relaxed) {
            _ if !is_met && book.met == MAX_FUNCTIONS => {
                self.is_full.store(true, Ordering::Relaxed);
                self.lost.add(1);
                return func;
            }
            _ if !is_met => func,
            0 => book.take_retired(func, text.as_ref()).unwrap_or_else(|| new_row(RowKind::Kernel)),
            row => row,
        };
        if let Some(text) = text
            && (by_application || !book.names.contains_key(&row))
        {
            let name = KernelName { text, kind: RowKind::Kernel };
            self.keep(&mut book, row, name);
        }
        place.row.store(row, Ordering::Relaxed);
        if is_asked {
            place.is_asked.store(true, Ordering::Relaxed);
        }
        if !is_met {
            book.met += 1;
            // Release: whoever finds the handle finds its row (partner: `row`).
            place.func.store(func, Ordering::Release);
        }
        row
    }

    fn keep(&self, book: &mut Book, row: u64, name: KernelName) -> bool {
        let before = book.names.get(&row).map(|name| name.text.len());
        let bytes = book.bytes - before.unwrap_or(0) + name.text.len();
        let has_room = before.is_some() || book.names.len() < MAX_NAMES;
        if !has_room || bytes > MAX_BYTES {
            self.lost.add(1);
            return false;
        }
        book.bytes = bytes;
        book.names.insert(row, name);
        true
    }

    /// The next function of that handle is another one.
    pub(super) fn forget(&self, func: u64) {
        let Some(mut book) = self.lock() else {
            return;
        };
        let Some((place, true)) = self.probe(func, Ordering::Relaxed) else {
            return;
        };
        let row = place.row.swap(0, Ordering::Relaxed);
        place.is_asked.store(false, Ordering::Relaxed);
        if row != 0 && book.retired.len() < MAX_NAMES {
            book.retired.push((func, row));
        }
    }

    /// The row of a graph, region or copy of that name; 0 where there is no room for
    /// it, and in a forked child.
    pub(super) fn numbered(&self, kind: RowKind, name: &str) -> u64 {
        let Some(mut book) = self.lock() else {
            return 0;
        };
        let key = (kind, Arc::<str>::from(name));
        if let Some(&row) = book.numbered.get(&key) {
            return row;
        }
        let (row, text) = (new_row(kind), Arc::clone(&key.1));
        if !self.keep(&mut book, row, KernelName { text, kind }) {
            return 0;
        }
        book.numbered.insert(key, row);
        row
    }

    /// What a row is called.
    pub(super) fn of_row(&self, row: u64) -> Option<KernelName> {
        self.lock()?.names.get(&row).cloned()
    }

    /// Names that found no room.
    pub(super) fn lost(&self) -> u64 {
        self.lost.get()
    }

    /// `None` in a forked child.
    fn lock(&self) -> Option<MutexGuard<'_, Book>> {
        if process::is_child(self.born) {
            return None;
        }
        Some(unpoisoned(self.book.lock()))
    }
}

impl Book {
    /// The row that this handle had when it was last called `name`.
    fn take_retired(&mut self, func: u64, name: Option<&Arc<str>>) -> Option<u64> {
        let names = &self.names;
        let had = |row| names.get(row).map(|name| &name.text) == name;
        let place =
            self.retired.iter().rposition(|(of, row)| name.is_some() && *of == func && had(row))?;
        Some(self.retired.swap_remove(place).1)
    }
}

/// The driver's name as text. Bytes that are no UTF-8 become `\xNN`, so that
/// different names stay different.
fn text(name: &[u8]) -> Arc<str> {
    let mut out = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a String does not fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.into()
}
