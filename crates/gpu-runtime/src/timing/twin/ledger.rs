// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of the replays of armed steps: twin or plain, and why.

use metrale_telemetry::instrument::Counter;
use metrale_telemetry::snapshot::TwinLedger;

macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident $field:ident;)*) => {
        /// Why an armed replay launched the plain executable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(in crate::timing) enum Plain {
            $($(#[$doc])* $reason,)*
        }

        /// See [`TwinLedger`].
        #[derive(Debug, Default)]
        pub(in crate::timing) struct Counts {
            pub(super) launched: Counter,
            pub(super) read: Counter,
            pub(super) lost: Counter,
            pub(super) waits: Counter,
            pub(super) updates_failed: Counter,
            $($field: Counter,)*
        }

        impl Counts {
            pub(super) fn plain(&self, why: Plain) {
                match why {
                    $(Plain::$reason => self.$field.add(1),)*
                }
            }

            pub(in crate::timing) fn read(&self) -> TwinLedger {
                let mut ledger = TwinLedger::default();
                ledger.launched = self.launched.get();
                ledger.read = self.read.get();
                ledger.lost = self.lost.get();
                ledger.waits = self.waits.get();
                ledger.updates_failed = self.updates_failed.get();
                $(ledger.$field = self.$field.get();)*
                ledger
            }
        }
    };
}

reasons! {
    /// It was the plain executable's turn.
    Turn by_turn;
    /// The twin's last launch was not read yet, or it was not on the device yet.
    Unread unread;
    /// The plan has had its launches; [`Twin::renew`](super::Twin::renew) makes the next.
    Spent plan_spent;
    /// The last launch was on another stream, or none is known.
    Stream other_stream;
    /// No span could be had: the stream captures, or the ring is full.
    Span no_span;
    /// The twin is stale.
    Stale stale;
    /// There is no twin, or none any more.
    NoTwin no_twin;
    /// The twin's launch failed, and the plain one followed.
    Failed launch_failed;
}
