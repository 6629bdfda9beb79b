// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams: when work starts and ends.
//!
//! Work on a stream runs in order: submitted at `now`, it starts at
//! max(now, end of the stream's last work). The legacy stream of a context and
//! its blocking streams wait for each other; non-blocking streams wait for
//! nobody. Unlimited work runs side by side: the simulated device is never full.

use metrale_gpu_sys::cuda::Status;

use crate::moment::Moment;
use crate::world::World;

/// `CU_STREAM_LEGACY`.
pub(crate) const LEGACY: u64 = 1;
/// `CU_STREAM_PER_THREAD`.
pub(crate) const PER_THREAD: u64 = 2;

/// A stream's part in a capture.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    pub(crate) capture: u64,
    /// The nodes that the stream's next node will depend on.
    pub(crate) deps: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: u64,
    /// Unique for ever, unlike the handle.
    pub(crate) id: u64,
    pub(crate) is_blocking: bool,
    pub(crate) is_legacy: bool,
    pub(crate) priority: i32,
    pub(crate) busy_until: Moment,
    pub(crate) joined: Option<Joined>,
    /// Node handles lent to a caller of `cuStreamGetCaptureInfo`, until its next call.
    pub(crate) lent: Vec<u64>,
}

impl World {
    pub(crate) fn new_stream(&mut self, context: u64, is_blocking: bool, priority: i32) -> u64 {
        self.ids.stream += 1;
        self.streams.insert(Stream {
            context,
            id: self.ids.stream,
            is_blocking,
            is_legacy: false,
            priority,
            busy_until: Moment::default(),
            joined: None,
            lent: Vec::new(),
        })
    }

    /// When the stream is done with all it was given.
    pub(crate) fn completion(&self, key: u64) -> Moment {
        let Some(stream) = self.streams.get(key) else {
            return Moment::default();
        };
        if !stream.is_legacy {
            return stream.busy_until.clone();
        }
        self.completion_of(|other| other.context == stream.context && other.is_blocking)
    }

    /// When all the streams are done that `is_meant` picks.
    pub(crate) fn completion_of(&self, is_meant: impl Fn(&Stream) -> bool) -> Moment {
        let meant = self.streams.iter().filter(|(_, stream)| is_meant(stream));
        meant.fold(Moment::default(), |last, (_, stream)| last.max(&stream.busy_until))
    }

    /// When work submitted to the stream now would start.
    pub(crate) fn start_time(&self, key: u64) -> Moment {
        let mut start = self.completion(key).max(&self.clock.now().into());
        if let Some(stream) = self.streams.get(key)
            && stream.is_blocking
            && !stream.is_legacy
            && let Some(context) = self.contexts.get(stream.context)
            && let Some(legacy) = self.streams.get(context.legacy)
        {
            start = start.max(&legacy.busy_until);
        }
        start
    }

    /// Gives the stream work that takes `ns`; returns when it ends.
    pub(crate) fn submit(&mut self, key: u64, ns: u64) -> Result<Moment, Status> {
        let end = self.start_time(key).plus(ns);
        self.stream(key)?.busy_until = end.clone();
        Ok(end)
    }

    /// Makes later work of the stream wait.
    pub(crate) fn hold(&mut self, key: u64, until: &Moment) -> Result<(), Status> {
        let start = self.start_time(key).max(until);
        self.stream(key)?.busy_until = start;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::world;

    /// Blocking and non-blocking streams beside the legacy stream, against a
    /// schedule worked out by hand.
    #[test]
    fn streams_run_in_order_and_the_legacy_stream_is_a_barrier() {
        let _alone = crate::exclusive();
        let mut world = world::lock();
        let context = world.new_context(0, true);
        let legacy = world.context(context).map(|c| c.legacy);
        // Not initialised: lookups by handle refuse, so take it from the table.
        assert!(legacy.is_err());
        let legacy = world.contexts.get(context).map_or(0, |c| c.legacy);
        let a = world.new_stream(context, true, 0);
        let b = world.new_stream(context, true, 0);
        let free = world.new_stream(context, false, 0);

        world.clock.advance(100);
        assert_eq!(world.submit(a, 50), Ok(150.into()));
        assert_eq!(world.submit(a, 10), Ok(160.into()), "in order");
        assert_eq!(world.submit(b, 5), Ok(105.into()), "beside a");
        assert_eq!(world.submit(legacy, 40), Ok(200.into()), "after a and b");
        assert_eq!(world.submit(b, 5), Ok(205.into()), "after legacy");
        assert_eq!(world.submit(free, 7), Ok(107.into()), "waits for nobody");
        assert_eq!(world.completion(legacy), 205.into(), "a blocking stream is busy");

        assert_eq!(world.hold(free, &300.into()), Ok(()));
        assert_eq!(world.submit(free, 1), Ok(301.into()));
        assert_eq!(world.completion(legacy), 205.into(), "non-blocking work is not its");
        world.clock.advance_to(1_000);
        assert_eq!(world.submit(a, 3), Ok(1_003.into()), "an idle stream starts now");
    }
}
