// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scripts about graphs that are built, cloned, edited and updated by hand.

use super::{Script, script};

pub(super) const SCRIPTS: &[Script] = &[
    script(
        "a_graph_is_built_from_nodes_and_edges",
        "context
         stream s nonblocking
         event a timed
         event b timed
         module m spin
         function f m
         graph g
         nodes g -> 0 0
         mark first g a
         kernel k g f 20000000 first
         kernel l g f 20000000 first
         mark last g b k l
         nodes g -> 0 4
         roots g -> 0 1
         edges g -> 0 4
         list-edges g -> 0 4
         type k -> 0 0
         type last -> 0 7
         before k -> 0 1
         behind first -> 0 2
         instantiate x g
         launch-graph x s
         query b -> 600
         sync-stream s
         elapsed a b -> 0 >=19000000",
    ),
    script(
        "edges_come_and_go",
        "context
         graph g
         empty a g
         empty b g
         type a -> 0 5
         depend g a b
         depend g a b -> 1
         roots g -> 0 1
         undepend g a b
         undepend g a b -> 1
         undepend g b a -> 1
         roots g -> 0 2
         depend g a b
         destroy-node a
         nodes g -> 0 1
         edges g -> 0 0
         graph h
         empty c h
         depend g b c -> 1",
    ),
    script(
        "an_edge_may_run_to_an_older_node_but_a_cycle_is_refused",
        "context
         stream s nonblocking
         graph g
         empty a g
         empty b g
         depend g b a
         instantiate x g
         launch-graph x s
         sync-stream s
         empty c g a
         depend g c b
         instantiate y g -> 1
         undepend g c b
         instantiate y g",
    ),
    script(
        "a_clone_is_edited_and_the_original_is_not",
        "context
         stream s nonblocking
         event a timed
         event b timed
         module m spin
         function f m
         graph g
         kernel k g f 20000000
         kernel l g f 20000000 k
         clone c g
         find kk k c
         find ll l c
         type kk -> 0 0
         find xx kk g -> 1
         mark between c a kk
         depend c between ll
         mark last c b ll
         nodes c -> 0 4
         nodes g -> 0 2
         edges c -> 0 4
         edges g -> 0 1
         # A clone of the clone has no node of the first graph.
         clone d c
         find xx k d -> 1
         destroy-node ll
         find xx l c -> 1
         find x kk d
         destroy-graph g
         instantiate x d
         launch-graph x s
         query b -> 600
         sync-stream s
         elapsed a b -> 0 >=19000000",
    ),
    script(
        "a_node_added_after_the_clone_is_not_found_in_it",
        "context
         graph g
         empty a g
         clone c g
         empty b g
         find x b c -> 1
         graph h
         find x a h -> 1",
    ),
    script(
        "an_executable_is_apart_from_its_graph",
        "context
         stream s nonblocking
         event a timed
         event b timed
         event other timed
         module m spin
         function f m
         graph g
         mark first g a
         kernel k g f 30000000 first
         mark last g b k
         instantiate x g
         node-event last other
         launch-graph x s
         sync-stream s
         query other -> 0
         elapsed a other -> 400
         elapsed a b -> 0 >=29000000
         destroy-graph g
         launch-graph x s
         query b -> 600
         sync-stream s
         elapsed a b -> 0 >=29000000",
    ),
    script(
        "an_executables_parameters_change_for_later_launches",
        "context
         stream s nonblocking
         event a timed
         event b timed
         event c timed
         module m spin
         function f m
         graph g
         mark first g a
         kernel k g f 1000 first
         mark last g b k
         instantiate x g
         exec-kernel x k f 30000000
         launch-graph x s
         sync-stream s
         elapsed a b -> 0 >=29000000
         exec-event x last c
         launch-graph x s
         query c -> 600
         sync-stream s
         elapsed a c -> 0 >=29000000
         exec-kernel x last f 1000 -> 1
         exec-event x k c -> 1
         graph h
         kernel other h f 1000
         exec-kernel x other f 1000 -> 1",
    ),
    script(
        "only_work_can_be_switched_off",
        "context
         stream s nonblocking
         event a timed
         module m spin
         function f m
         graph g
         kernel k g f 20000000
         mark n g a k
         empty e g
         instantiate x g
         disable x k
         disable x n -> 1
         disable x e -> 1
         enable x k",
    ),
    script(
        "a_whole_graph_updates_an_executable_of_the_same_shape",
        "context
         stream s nonblocking
         event a timed
         event b timed
         module m spin
         function f m
         graph g
         mark first g a
         kernel k g f 1000 first
         mark last g b k
         instantiate x g
         graph h
         mark hfirst h a
         kernel hk h f 30000000 hfirst
         mark hlast h b hk
         update x h -> 0 0
         launch-graph x s
         sync-stream s
         elapsed a b -> 0 >=29000000
         empty more h
         update x h -> 910 2",
    ),
    script(
        "programmatic_edges_are_between_kernels_and_are_not_lost_in_a_list",
        "context
         event a timed
         module m spin
         function f m
         graph g
         kernel k g f 1000
         kernel l g f 1000
         mark n g a
         depend g k l programmatic
         depend g k n programmatic -> 1
         depend g n l programmatic -> 1
         edges g -> 0 1
         list-edges g -> 402
         list-edges-and-data g -> 0 1
         clone c g
         list-edges c -> 402
         undepend g k l -> 1
         undepend g k l programmatic
         list-edges g -> 0 0",
    ),
    script(
        "a_child_graph_is_a_copy",
        "context
         stream s nonblocking
         event a timed
         event b timed
         module m spin
         function f m
         graph inner
         kernel k inner f 30000000
         graph g
         mark first g a
         child c g inner first
         mark last g b c
         type c -> 0 4
         kernel l inner f 30000000
         nodes g -> 0 3
         destroy-graph inner
         instantiate x g
         launch-graph x s
         query b -> 600
         sync-stream s
         elapsed a b -> 0 >=29000000",
    ),
    script(
        "a_host_function_in_a_graph_runs_at_every_launch",
        "context
         stream s nonblocking
         event a timed
         event b timed
         module m spin
         function f m
         begin s local
         record-external a s
         launch f s 20000000
         host s
         record-external b s
         end s g -> 0 graph
         nodes g -> 0 4
         instantiate x g
         launch-graph x s
         sync-event a
         query b -> 600
         query-stream s -> 600
         release
         sync-stream s
         elapsed a b -> 0 >=19000000
         launch-graph x s
         sync-stream s
         query b -> 0",
    ),
    script(
        "instantiation_flags_are_told_but_for_the_upload",
        "context
         stream s nonblocking
         graph g
         empty a g
         instantiate x g
         flags x -> 0 0
         upload x s
         instantiate-for y g 8
         flags y -> 0 8
         instantiate-for w g 9
         instantiate-for z g 5 -> 1
         instantiate-for z g 16 -> 1",
    ),
    script(
        "a_graph_for_the_device_holds_work_only",
        "context
         event a timed
         module m spin
         function f m
         graph g
         instantiate-for x g 4 -> 1
         kernel k g f 1000
         mark n g a k
         instantiate-for x g 4 -> 1|801",
    ),
    script(
        "a_captured_graph_is_edited_like_any_other",
        "context
         stream s nonblocking
         event a timed
         event b timed
         module m spin
         function f m
         begin s local
         launch f s 20000000
         launch f s 20000000
         end s g -> 0 graph
         clone c g
         nodes c -> 0 2
         edges c -> 0 1
         mark last c b
         roots c -> 0 2
         instantiate x c
         launch-graph x s
         sync-stream s
         query b -> 0",
    ),
];
