// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which rows have a series of their own in an export, and since when. A kernel, a
//! graph and a region are told apart also where they have one name.
//!
//! 1. A kernel is *promoted* by a harvest, never by a reader. What it took
//!    before stays with the others, so that neither sum ever falls.
//! 2. A series stays for ever, under the label that it had when it was promoted.
//! 3. A kernel without a name is never promoted: its handle says nothing to
//!    anybody, and is another one in the next process.
//! 4. A reader keeps promotions out while it copies the rows, so that rows and
//!    series are of one moment. A promoter does not wait for it: it comes again.
//! 5. All is bounded. Memory is taken once, when the first kernel is promoted.

use crate::kernel::span::is_region;
use crate::kernel::{KERNEL_TABLE_SLOTS, KernelInstruments, KernelTime};
use crate::rows::{KernelName, RowKind};
use crate::sync::relaxed::AtomicU64;
use crate::sync::{Mutex, Ordering, const_fn, lock_alive, try_lock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most series that there can be, besides that of all others.
pub const MAX_KERNEL_SERIES: usize = 128;
/// The label of all rows without a series of their own: of kind `kernel` that of
/// kernels and graphs, of kind `region` that of regions and copies, where there are
/// some.
pub const OTHER_KERNELS: &str = "other";

/// Nanoseconds between two promotions.
const INTERVAL_NS: u64 = 1_000_000_000;

/// GPU time of the sampled launches under one label.
///
/// ```
/// use metrale_telemetry::Telemetry;
/// use metrale_telemetry::snapshot::OTHER_KERNELS;
///
/// let series = Telemetry::new().snapshot().kernel_series;
/// assert_eq!(series.last().map(|series| series.label.as_str()), Some(OTHER_KERNELS));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct KernelSeries {
    /// What the row is called: never the same in two series of a kind.
    pub label: String,
    /// What it is.
    pub kind: RowKind,
    /// Nanoseconds since it was promoted.
    pub total_ns: u64,
    /// Launches since it was promoted.
    pub samples: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ExposedKernels {
    /// How many of the kernels with the most time are promoted; 0: none.
    top: AtomicU64,
    due_ns: AtomicU64,
    list: Mutex<List>,
}

#[derive(Debug)]
struct List {
    /// Kinds and labels.
    series: Vec<(RowKind, String)>,
    /// Names of rows, and the series of each: several may share one.
    names: Vec<(KernelName, usize)>,
    rows: Vec<Row>,
    /// Every row, at the moment of a promotion.
    now: Vec<KernelTime>,
}

/// A row of the kernel table that counts into a series.
#[derive(Debug)]
struct Row {
    series: usize,
    /// What it held when it was promoted.
    before: KernelTime,
}

impl ExposedKernels {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self {
                top: AtomicU64::new(0),
                due_ns: AtomicU64::new(0),
                list: Mutex::new(List {
                    series: Vec::new(),
                    names: Vec::new(),
                    rows: Vec::new(),
                    now: Vec::new(),
                }),
            }
        }
    }

    pub(crate) fn set_top(&self, top: usize) {
        self.top.store(top.min(MAX_KERNEL_SERIES) as u64, Ordering::Relaxed);
    }

    /// Gives the kernels with the most time their series, where that is due.
    pub(crate) fn promote(
        &self,
        now_ns: impl FnOnce() -> u64,
        instruments: &KernelInstruments,
        name_of: impl Fn(u64) -> Option<KernelName>,
        label_of: impl Fn(&str) -> String,
    ) {
        let top = self.top.load(Ordering::Relaxed) as usize;
        if top == 0 {
            return;
        }
        let now_ns = now_ns();
        if now_ns < self.due_ns.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut list) = try_lock(&self.list) else {
            return;
        };
        self.due_ns.store(now_ns.saturating_add(INTERVAL_NS), Ordering::Relaxed);
        list.promote(top, instruments, name_of, label_of);
    }

    /// Every series, from one copy of the rows.
    pub(crate) fn read(&self, instruments: &KernelInstruments) -> Exposed {
        let list = lock_alive(&self.list);
        let kernels = instruments.kernels();
        let list = list.as_deref();
        let label = |(name, series): &(KernelName, usize)| {
            Some((name.clone(), list?.series.get(*series)?.1.clone()))
        };
        let names = list.map_or(&[][..], |list| &list.names);
        Exposed {
            series: list.map_or_else(Vec::new, |list| list.read(&kernels)),
            labels: names.iter().filter_map(label).collect(),
            kernels,
        }
    }
}

/// What a reader sees at one moment.
pub(crate) struct Exposed {
    /// Every row.
    pub(crate) kernels: Vec<KernelTime>,
    /// Every series, those of all others last.
    pub(crate) series: Vec<KernelSeries>,
    /// The label of a row's name.
    pub(crate) labels: BTreeMap<KernelName, String>,
}

impl List {
    fn promote(
        &mut self,
        top: usize,
        instruments: &KernelInstruments,
        name_of: impl Fn(u64) -> Option<KernelName>,
        label_of: impl Fn(&str) -> String,
    ) {
        let List { series, names, rows, now } = self;
        series.reserve_exact(MAX_KERNEL_SERIES - series.len());
        names.reserve_exact(KERNEL_TABLE_SLOTS - names.len());
        rows.reserve_exact(KERNEL_TABLE_SLOTS - rows.len());
        now.reserve_exact(KERNEL_TABLE_SLOTS);
        let mut now = std::mem::take(&mut self.now);
        instruments.each_kernel(|row| now.push(row));
        now.sort_unstable_by_key(|row| std::cmp::Reverse(row.total_ns));
        // Series met so far: the functions of one name are one of the top.
        let (mut met, mut count) = ([false; MAX_KERNEL_SERIES], 0);
        for row in now.drain(..) {
            let known = self.rows.iter().find(|known| known.before.func == row.func);
            let series = match known {
                Some(known) => Some(known.series),
                None => self.find_or_add(row, count < top, &name_of, &label_of),
            };
            if let Some(met) = series.and_then(|series| met.get_mut(series)) {
                count += usize::from(!std::mem::replace(met, true));
            }
        }
        self.now = now;
    }

    /// Has a row count into the series of its name, whatever its time; into a
    /// new one where it is one of the top and there is room.
    fn find_or_add(
        &mut self,
        row: KernelTime,
        is_top: bool,
        name_of: impl Fn(u64) -> Option<KernelName>,
        label_of: impl Fn(&str) -> String,
    ) -> Option<usize> {
        if self.rows.len() == KERNEL_TABLE_SLOTS {
            return None;
        }
        let name = name_of(row.func).filter(|name| !name.text.is_empty())?;
        let known = self.names.iter().find(|(known, _)| *known == name);
        let series = match known {
            Some((_, series)) => *series,
            None if is_top => self.add(name, label_of)?,
            None => return None,
        };
        self.rows.push(Row { series, before: row });
        Some(series)
    }

    /// The series for a new name, if there is room for it.
    fn add(&mut self, name: KernelName, label_of: impl Fn(&str) -> String) -> Option<usize> {
        let mut label = label_of(&name.text).replace(char::is_control, "?");
        if label.is_empty() {
            label.push_str(&name.text.replace(char::is_control, "?"));
        }
        if label == OTHER_KERNELS {
            label.push('\'');
        }
        let series = (name.kind, label);
        let known = self.series.iter().position(|known| *known == series);
        let series = match known {
            Some(series) => series,
            None if self.series.len() == MAX_KERNEL_SERIES => return None,
            None => {
                self.series.push(series);
                self.series.len() - 1
            }
        };
        self.names.push((name, series));
        Some(series)
    }

    fn read(&self, kernels: &[KernelTime]) -> Vec<KernelSeries> {
        let named = self.series.iter().map(|(kind, label)| (*kind, label.as_str()));
        let has_regions = kernels.iter().any(|kernel| is_region(kernel.func));
        let others = [RowKind::Kernel, RowKind::Region].map(|kind| (kind, OTHER_KERNELS));
        let others = &others[..1 + usize::from(has_regions)];
        let mut out: Vec<KernelSeries> = named
            .chain(others.iter().copied())
            .map(|(kind, label)| KernelSeries {
                label: label.to_owned(),
                kind,
                ..KernelSeries::default()
            })
            .collect();
        let other = |func| self.series.len() + usize::from(is_region(func));
        let mut add = |series: usize, total_ns: u64, samples: u64| {
            let own = &mut out[series];
            own.total_ns = own.total_ns.saturating_add(total_ns);
            own.samples = own.samples.saturating_add(samples);
        };
        for kernel in kernels {
            let row = self.rows.iter().find(|row| row.before.func == kernel.func);
            let (before_ns, before_samples) = match row {
                None => (kernel.total_ns, kernel.samples),
                Some(row) => (row.before.total_ns, row.before.samples),
            };
            add(other(kernel.func), before_ns, before_samples);
            if let Some(row) = row {
                let total_ns = kernel.total_ns.saturating_sub(before_ns);
                add(row.series, total_ns, kernel.samples.saturating_sub(before_samples));
            }
        }
        out
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests;
