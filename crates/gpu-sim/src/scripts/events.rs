// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scripts about contexts, streams, events and modules outside captures.

use std::borrow::Cow;

use super::{Script, script};

pub(super) const SCRIPTS: &[Script] = &[
    Script {
        name: Cow::Borrowed("before_cu_init"),
        hardware: true,
        own_process: true,
        steps: Cow::Borrowed(
            "query NULL -> 400
             destroy-event NULL -> 400
             sync-event NULL -> 400
             record NULL NULL -> 3
             destroy-stream NULL -> 400
             destroy-context NULL -> 1
             mode relaxed -> 3 relaxed
             event e timed -> 3
             capturing LEGACY -> 3
             stream s blocking -> 3
             context
             mode relaxed -> 0 global",
        ),
    },
    script(
        "null_events_are_refused",
        "context
         stream s nonblocking
         event e timed
         query NULL -> 400
         sync-event NULL -> 400
         record NULL s -> 400
         elapsed NULL e -> 400
         destroy-event NULL -> 400",
    ),
    script(
        "a_thread_without_a_context",
        "context
         @2 record NULL NULL -> 3
         @2 destroy-context NULL -> 1
         @2 event e timed -> 201
         @2 stream s blocking -> 201
         @2 stream-context NULL -> 201
         stream s nonblocking
         event e timed
         # An event and an explicit stream bring their context.
         @2 record e s
         @2 sync-event e
         @2 query e
         @2 stream-context s",
    ),
    script(
        "an_event_never_recorded_is_done_but_has_no_time",
        "context
         stream s nonblocking
         event a timed
         event b timed
         query a -> 0
         elapsed a b -> 400
         record b s
         sync-event b
         elapsed a b -> 400
         elapsed b a -> 400
         record a s
         sync-event a
         elapsed b a -> 0 >=0",
    ),
    script(
        "an_untimed_event_has_no_time",
        "context
         stream s nonblocking
         event a timed
         event b untimed
         record a s
         record b s
         sync-stream s
         query b -> 0
         elapsed a b -> 400
         elapsed b a -> 400",
    ),
    script(
        "a_pending_event_is_not_ready",
        "context
         stream s nonblocking
         event a timed
         event b timed
         module m spin
         function f m
         record a s
         launch f s 50000000
         record b s
         query b -> 600
         query-stream s -> 600
         elapsed a b -> 600
         pass 50000000
         query b -> 0
         query-stream s -> 0
         elapsed a b -> 0 >=49000000",
    ),
    script(
        "recording_again_overwrites",
        "context
         stream s nonblocking
         event a timed
         event b timed
         module m spin
         function f m
         record a s
         record b s
         sync-stream s
         query b -> 0
         launch f s 50000000
         record b s
         query b -> 600
         sync-event b
         elapsed a b -> 0 >=49000000",
    ),
    script(
        "an_event_outlives_its_stream",
        "context
         stream s nonblocking
         event a timed
         event b timed
         module m spin
         function f m
         record a s
         launch f s 50000000
         record b s
         destroy-stream s
         query b -> 600
         pass 50000000
         query b -> 0
         elapsed a b -> 0 >=49000000",
    ),
    script(
        "a_stream_waits_for_an_event_of_another",
        "context
         stream s nonblocking
         stream t nonblocking
         event a timed
         event b timed
         module m spin
         function f m
         record a s
         launch f s 50000000
         record b s
         wait t b
         query-stream t -> 600
         sync-stream t
         query b -> 0
         # Nothing was ever recorded: nothing to wait for.
         event never timed
         wait t never
         query-stream t -> 0",
    ),
    script(
        "a_host_function_holds_back_its_stream_alone",
        "context
         stream s nonblocking
         stream t nonblocking
         event before timed
         event after timed
         event apart timed
         record before s
         host s
         record after s
         sync-event before
         record apart t
         sync-event apart
         query after -> 600
         query-stream s -> 600
         query-stream t -> 0
         elapsed before after -> 600
         release
         sync-stream s
         query after -> 0
         elapsed before after -> 0 >=0",
    ),
    script(
        "the_legacy_stream_waits_for_a_host_function",
        "context
         stream s blocking
         stream t nonblocking
         event e untimed
         host s
         record e s
         wait t e
         query-stream LEGACY -> 600
         query-stream t -> 600
         @2 context
         @2 query e -> 600
         release
         @2 sync-event e
         sync-context
         query-stream LEGACY -> 0",
    ),
    script(
        "the_legacy_stream_waits_for_blocking_streams_only",
        "context
         stream s blocking
         stream t nonblocking
         event a timed
         event b timed
         module m spin
         function f m
         launch f s 50000000
         record a LEGACY
         record b t
         query a -> 600
         sync-event b
         query a -> 600
         sync-event a
         query-stream s -> 0",
    ),
    script(
        "event_and_stream_of_two_contexts",
        "context
         stream s nonblocking
         event a timed
         record a s
         sync-event a
         new-context c
         event b timed
         stream t nonblocking
         record b s -> 400
         record b t
         sync-event b
         elapsed a b -> 400
         query a -> 0",
    ),
    script(
        "modules_that_are_none_and_functions_that_are_not_there",
        "context
         module m garbage -> 218|200
         module m spin
         function f m absent -> 500
         function f m",
    ),
];
