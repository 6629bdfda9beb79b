// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels of a replay as one PTX module.
//!
//! Invariants: every entry takes one `.u64` parameter, whose name ends in
//! `duration_ns`, and returns that many nanoseconds after it started; recorded
//! names never reach the text, so no name can break it. One more entry stands
//! for copies and sets, which a replay runs but never shows as kernels.

use std::fmt::Write as _;

/// The entry that stands for a copy or a set.
pub const COPY: &str = "metrale_copy";

/// The entry that stands for a recorded gap in a graph.
pub const GAP: &str = "metrale_gap";

/// The entry of the plan's kernel `index`.
pub fn entry(index: usize) -> String {
    format!("metrale_k{index}")
}

/// A module with an entry for each of `kernels` kernels, and [`COPY`].
///
/// PTX 6.0 for `sm_50` is the oldest text that today's drivers still compile,
/// and they compile it for any newer device.
pub fn module(kernels: usize) -> String {
    let mut text = String::from(".version 6.0\n.target sm_50\n.address_size 64\n");
    for name in (0..kernels).map(entry).chain([COPY.to_owned(), GAP.to_owned()]) {
        // A zero duration must not wait for the timer's next tick, which comes
        // as late as a microsecond. The timer is read as a volatile register.
        let _ = write!(
            text,
            "
.visible .entry {name}(
    .param .u64 {name}_duration_ns
)
{{
    .reg .pred %p;
    .reg .u64 %duration, %start, %now;
    ld.param.u64 %duration, [{name}_duration_ns];
    setp.eq.u64 %p, %duration, 0;
    @%p bra DONE;
    mov.u64 %start, %globaltimer;
SPIN:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %p, %now, %duration;
    @%p bra SPIN;
DONE:
    ret;
}}
"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_its_entry_and_its_duration() {
        let text = module(3);
        assert!(text.is_ascii() && text.starts_with(".version"));
        assert_eq!(text.matches(".entry ").count(), 5);
        for name in [entry(0), entry(1), entry(2), COPY.to_owned(), GAP.to_owned()] {
            assert_eq!(text.matches(&format!(".visible .entry {name}(")).count(), 1);
            assert_eq!(text.matches(&format!(".param .u64 {name}_duration_ns")).count(), 1);
            assert_eq!(text.matches(&format!("[{name}_duration_ns]")).count(), 1);
        }
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
