// SPDX-License-Identifier: MIT OR Apache-2.0
//! A progress bar for work that takes long.
//!
//! Invariant: nothing is drawn where standard error is no terminal, nor in the
//! first second; what was drawn is gone afterwards.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work shorter than this shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that may never appear.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    begun: Instant,
    bar: Option<ProgressBar>,
    terminal: bool,
}

impl Progress {
    /// Progress of `what`, a verb in its -ing form.
    pub fn new(what: &'static str) -> Self {
        Progress {
            what,
            begun: Instant::now(),
            bar: None,
            terminal: std::io::stderr().is_terminal(),
        }
    }

    /// So much of so much is done.
    pub fn at(&mut self, done: u64, total: u64) {
        if !self.terminal || self.begun.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:40}] {percent:>3} %") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_prefix(self.what);
            bar
        });
        bar.set_length(total);
        bar.set_position(done.min(total));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
