// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scripts about stream capture and graphs.

use super::{Script, script};

pub(super) const SCRIPTS: &[Script] = &[
    script(
        "the_mode_is_a_threads_own",
        "context
         mode relaxed -> 0 global
         @2 mode local -> 0 global
         mode global -> 0 relaxed
         @2 mode global -> 0 local",
    ),
    script(
        "capture_then_launch",
        "context
         stream s nonblocking
         event a timed
         event b timed
         module m spin
         function f m
         capturing s -> 0 none
         begin s local
         capturing s -> 0 active
         info s -> 0 active
         launch f s 20000000
         launch f s 30000000
         end s g -> 0 graph
         capturing s -> 0 none
         nodes g -> 0 2
         instantiate x g
         record a s
         launch-graph x s
         record b s
         query b -> 600
         sync-stream s
         elapsed a b -> 0 >=49000000",
    ),
    script(
        "a_captured_event_is_unknown_until_recorded_outside",
        "context
         stream s nonblocking
         event e timed
         begin s relaxed
         record e s
         end s g -> 0 graph
         query e -> 907
         query e -> 907
         mode relaxed -> 0 global
         query e -> 907
         mode global -> 0 relaxed
         record e s
         sync-event e
         query e -> 0",
    ),
    script(
        "asking_about_a_captured_event_breaks_its_capture",
        "context
         stream s nonblocking
         event e timed
         begin s local
         record e s
         mode relaxed -> 0 global
         query e -> 907
         mode global -> 0 relaxed
         capturing s -> 0 invalidated
         end s g -> 901 NULL
         query e -> 907
         record e s
         sync-event e",
    ),
    script(
        "a_plain_record_adds_no_node_an_external_one_does",
        "context
         stream s nonblocking
         event mark timed
         event a timed
         event b timed
         module m spin
         function f m
         begin s local
         record mark s
         record-external a s
         launch f s 20000000
         record-external b s
         end s g -> 0 graph
         nodes g -> 0 3
         # Not recorded yet: the node records at launch.
         query a -> 0
         elapsed a b -> 400
         instantiate x g
         launch-graph x s
         query b -> 600
         sync-stream s
         elapsed a b -> 0 >=19000000
         launch-graph x s
         query b -> 600
         sync-stream s
         elapsed a b -> 0 >=19000000",
    ),
    script(
        "an_external_record_outside_a_capture",
        "context
         stream s nonblocking
         event e timed
         record-external e s -> 1",
    ),
    script(
        "fork_and_join",
        "context
         stream s nonblocking
         stream t nonblocking
         event fork untimed
         event join untimed
         module m spin
         function f m
         begin s global
         launch f s 1000
         record fork s
         wait t fork
         capturing t -> 0 active
         launch f t 1000
         launch f s 1000
         record join t
         wait s join
         end s g -> 0 graph
         capturing t -> 0 none
         nodes g -> 0 3",
    ),
    script(
        "a_fork_that_is_not_joined",
        "context
         stream s nonblocking
         stream t nonblocking
         event fork untimed
         module m spin
         function f m
         begin s local
         launch f s 1000
         record fork s
         wait t fork
         launch f t 1000
         end s g -> 904 NULL
         capturing s -> 0 none
         capturing t -> 0 none",
    ),
    script(
        "two_captures_do_not_merge",
        "context
         stream s nonblocking
         stream t nonblocking
         event e untimed
         begin s local
         begin t local
         record e s
         wait t e -> 902
         capturing s -> 0 invalidated
         capturing t -> 0 invalidated
         end s g -> 901 NULL
         end t g -> 901 NULL",
    ),
    script(
        "a_capture_does_not_depend_on_work_outside",
        "context
         stream s nonblocking
         stream t nonblocking
         event e untimed
         record e t
         begin s local
         wait s e -> 905
         capturing s -> 0 invalidated
         end s g -> 901 NULL",
    ),
    script(
        "waiting_for_an_event_of_a_capture_that_is_over",
        "context
         stream s nonblocking
         stream t nonblocking
         event e untimed
         begin s local
         record e s
         end s g -> 0 graph
         destroy-graph g
         wait t e -> 1",
    ),
    script(
        "where_a_capture_can_begin_and_end",
        "context
         stream s nonblocking
         begin LEGACY local -> 1
         begin NULL local -> 1
         end s g -> 401
         begin s local
         begin s local -> 401
         @2 context
         @2 end s g -> 908
         end s g -> 0 graph
         begin s relaxed
         @2 end s h -> 0 graph",
    ),
    script(
        "only_the_first_stream_ends_a_capture",
        "context
         stream s nonblocking
         stream t nonblocking
         event e untimed
         begin s local
         record e s
         wait t e
         end t g -> 903
         end s g -> 0|901",
    ),
    script(
        "the_legacy_stream_beside_a_blocking_capture",
        "context
         stream s blocking
         event e timed
         begin s relaxed
         capturing LEGACY -> 906
         capturing NULL -> 906
         info LEGACY -> 906
         # Asking did no harm.
         capturing s -> 0 active
         record e LEGACY -> 906
         capturing s -> 0 invalidated
         end s g -> 901 NULL
         record e LEGACY
         sync-event e",
    ),
    script(
        "waiting_for_the_legacy_stream_beside_a_blocking_capture",
        "context
         stream s blocking
         begin s relaxed
         sync-stream LEGACY -> 906
         end s g -> 901 NULL",
    ),
    script(
        "the_legacy_stream_beside_a_non_blocking_capture",
        "context
         stream s nonblocking
         event e timed
         begin s global
         capturing LEGACY -> 0 none
         record e LEGACY
         end s g -> 0 graph
         sync-event e",
    ),
    script(
        "waiting_for_a_capturing_stream_is_refused_in_every_mode",
        "context
         stream s nonblocking
         @2 context
         @2 mode relaxed -> 0 global
         begin s relaxed
         @2 sync-stream s -> 900
         end s g -> 901 NULL
         begin s relaxed
         @2 query-stream s -> 900
         end s g -> 901 NULL
         begin s relaxed
         @2 sync-context -> 900
         end s g -> 901 NULL",
    ),
    script(
        "stream_ids_are_not_told_of_a_capturing_stream",
        "context
         stream s nonblocking
         stream-id s -> 0
         begin s local
         stream-id s -> 900
         capturing s -> 0 invalidated
         end s g -> 901 NULL",
    ),
    script(
        "loading_and_allocating_are_unsafe_calls",
        "context
         stream s nonblocking
         @2 context
         begin s global
         @2 alloc p -> 900
         end s g -> 901 NULL
         begin s global
         @2 module m spin -> 900
         end s g -> 901 NULL
         begin s local
         @2 alloc p
         end s g -> 0 graph
         begin s global
         @2 mode relaxed -> 0 global
         @2 alloc q
         @2 module m spin
         end s h -> 0 graph",
    ),
    script(
        "what_is_harmless_during_a_capture",
        "context
         stream s nonblocking
         stream t nonblocking
         event spare timed
         @2 context
         begin s global
         @2 capturing s -> 0 active
         @2 capturing t -> 0 none
         @2 info t -> 0 none
         @2 mode relaxed -> 0 global
         @2 mode global -> 0 relaxed
         @2 stream-context t
         @2 event e timed
         @2 record e t
         @2 destroy-event spare
         event own timed
         record own t
         end s g -> 0 graph
         sync-event e
         sync-event own",
    ),
    script(
        "nothing_more_goes_into_a_broken_capture",
        "context
         stream s nonblocking
         event e timed
         module m spin
         function f m
         begin s global
         @2 query e -> 900
         launch f s 1000 -> 901
         record e s -> 901
         end s g -> 901 NULL
         launch f s 1000
         record e s
         sync-stream s",
    ),
];
