// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of calls: bounded, off until started.

use crate::symbols::Symbol;

/// Records that are kept; later ones are only counted.
pub(crate) const LOG_LIMIT: usize = 1 << 20;

/// One call as the simulator saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) sequence: u64,
    pub(crate) thread: u64,
    pub(crate) symbol: Symbol,
    pub(crate) handle: u64,
    pub(crate) stream: u64,
    pub(crate) status: u32,
    pub(crate) mode: u32,
    pub(crate) time_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Log {
    on: bool,
    records: Vec<Record>,
    not_kept: u64,
}

impl Log {
    pub(crate) const fn new() -> Self {
        Self { on: false, records: Vec::new(), not_kept: 0 }
    }

    pub(crate) const fn set_on(&mut self, on: bool) {
        self.on = on;
    }

    pub(crate) fn clear(&mut self) {
        self.records.clear();
        self.not_kept = 0;
    }

    pub(crate) fn push(&mut self, record: impl FnOnce() -> Record) {
        if !self.on {
            return;
        }
        if self.records.len() < LOG_LIMIT {
            self.records.push(record());
        } else {
            self.not_kept += 1;
        }
    }

    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    pub(crate) const fn not_kept(&self) -> u64 {
        self.not_kept
    }
}

#[cfg(test)]
mod tests {
    use super::{LOG_LIMIT, Log, Record};
    use crate::symbols::Symbol;

    #[test]
    fn the_log_is_bounded_and_says_what_it_left_out() {
        let mut log = Log::new();
        let record = |sequence| Record {
            sequence,
            thread: 1,
            symbol: Symbol::cuInit,
            handle: 0,
            stream: 0,
            status: 0,
            mode: 0,
            time_ns: 0,
        };
        log.push(|| record(0));
        assert!(log.records().is_empty(), "off until started");
        log.set_on(true);
        for sequence in 0..LOG_LIMIT as u64 + 3 {
            log.push(|| record(sequence));
        }
        assert_eq!(log.records().len(), LOG_LIMIT);
        assert_eq!(log.not_kept(), 3);
        log.clear();
        assert_eq!((log.records().len(), log.not_kept()), (0, 0));
    }
}
