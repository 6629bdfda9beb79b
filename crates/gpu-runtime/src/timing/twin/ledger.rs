// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of the replays of armed steps: twin or plain, and why.

use metrale_telemetry::instrument::Counter;

macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident $field:ident;)*) => {
        /// Why an armed replay launched the plain executable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(in crate::timing) enum Plain {
            $($reason,)*
        }

        /// What became of replays on armed steps. An armed replay is one of
        /// `launched` or of the plain ones by reason, and one launched is `read`,
        /// `lost` or in flight.
        ///
        /// ```
        /// use metrale_gpu_runtime::timing::Recorder;
        /// let replays = Recorder::disabled().twin_ledger();
        /// assert_eq!(replays.launched + replays.plain(), 0);
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct TwinLedger {
            /// The twin was launched.
            pub launched: u64,
            /// Launches of twins that were read to the last mark.
            pub read: u64,
            /// Launches of twins that can never be read.
            pub lost: u64,
            $($(#[$doc])* pub $field: u64,)*
            /// Launches that waited on the GPU for a twin on another stream.
            pub waits: u64,
            /// Updates that an executable took and its twin did not.
            pub updates_failed: u64,
        }

        impl TwinLedger {
            /// Armed replays that launched the plain executable.
            #[must_use]
            pub const fn plain(&self) -> u64 {
                0 $(+ self.$field)*
            }
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
                TwinLedger {
                    launched: self.launched.get(),
                    read: self.read.get(),
                    lost: self.lost.get(),
                    waits: self.waits.get(),
                    updates_failed: self.updates_failed.get(),
                    $($field: self.$field.get(),)*
                }
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
