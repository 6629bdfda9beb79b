// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of calls: bounded, off until started.

use crate::control::Call;

/// Calls that are kept; later ones are only counted.
pub(crate) const LOG_LIMIT: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Log {
    on: bool,
    calls: Vec<Call>,
    not_kept: u64,
}

impl Log {
    pub(crate) const fn new() -> Self {
        Self { on: false, calls: Vec::new(), not_kept: 0 }
    }

    pub(crate) const fn set_on(&mut self, on: bool) {
        self.on = on;
    }

    pub(crate) fn clear(&mut self) {
        self.calls.clear();
        self.not_kept = 0;
    }

    pub(crate) fn push(&mut self, call: impl FnOnce() -> Call) {
        if !self.on {
            return;
        }
        if self.calls.len() < LOG_LIMIT {
            self.calls.push(call());
        } else {
            self.not_kept += 1;
        }
    }

    pub(crate) fn calls(&self) -> &[Call] {
        &self.calls
    }

    pub(crate) const fn not_kept(&self) -> u64 {
        self.not_kept
    }
}

#[cfg(test)]
mod tests {
    use metrale_gpu_sys::cuda::Status;

    use super::{Call, LOG_LIMIT, Log};

    #[test]
    fn the_log_is_bounded_and_says_what_it_left_out() {
        let mut log = Log::new();
        let (handle, stream, status, mode) = (0, 0, Status::SUCCESS, 0);
        let name = "cuInit";
        let call = Call { sequence: 0, thread: 1, name, handle, stream, status, mode, time_ns: 0 };
        log.push(|| call);
        assert!(log.calls().is_empty(), "off until started");
        log.set_on(true);
        for sequence in 0..LOG_LIMIT as u64 + 3 {
            log.push(|| Call { sequence, ..call });
        }
        assert_eq!(log.calls().len(), LOG_LIMIT);
        assert_eq!(log.not_kept(), 3);
        log.clear();
        assert_eq!((log.calls().len(), log.not_kept()), (0, 0));
    }
}
