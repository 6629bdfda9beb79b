// SPDX-License-Identifier: MIT OR Apache-2.0
// libmetrale: always-on GPU time for LLM serving. docs/c.md says how it is used.
//
// Made by `cargo xtask api --write` of the sources in crates/capi: edit those.
//
// Under "# Safety" stands for each function from which threads it may be called, and
// what its caller promises. NULL where no NULL is taken, and what is misaligned, is
// refused; that other pointers point to what they should is the caller's to see to.

#ifndef METRALE_H
#define METRALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// The version of what this header declares. It is raised where something that
/// was declared before changes; what is new leaves it.
#define METRALE_ABI_VERSION 2

/// Stands for a number that is not known.
#define METRALE_UNKNOWN 18446744073709551615ull

/// The lane in which requests are taken in.
#define METRALE_LANE_ADMIT 0

/// The lane that works through prompts.
#define METRALE_LANE_PREFILL 1

/// The lane that generates.
#define METRALE_LANE_DECODE 2

/// Lanes that a record has room for.
#define METRALE_MAX_LANES 16

/// What a call came to. Where it is neither `METRALE_STATUS_OK` nor
/// `METRALE_STATUS_NOTHING`, `metrale_last_error` tells why.
typedef enum {
  /// Done.
  METRALE_STATUS_OK = 0,
  /// There is nothing to give, or not yet.
  METRALE_STATUS_NOTHING = 1,
  /// An argument cannot be used: the text says which one.
  METRALE_STATUS_ARGUMENT = 2,
  /// The program was built for another version of the header.
  METRALE_STATUS_ABI = 3,
  /// There is no usable driver or device.
  METRALE_STATUS_DRIVER = 4,
  /// No context is current, or it could not be made current.
  METRALE_STATUS_CONTEXT = 5,
  /// The driver made too few events, or the system no thread.
  METRALE_STATUS_RESOURCES = 6,
  /// It is too late for that, or it was done already: the text says which.
  METRALE_STATUS_REFUSED = 7,
  /// A fault of the library, which was caught and counted: please report it.
  METRALE_STATUS_PANICKED = 8,
  /// A call that was made for the application was not accepted by the driver: `result` and
  /// the text have what it answered.
  METRALE_STATUS_CALL = 9,
} metrale_status;

/// Whether there is a twin to launch.
typedef enum {
  /// There is.
  METRALE_TWIN_STATE_READY = 0,
  /// There never was.
  METRALE_TWIN_STATE_REFUSED = 1,
  /// An update was not taken by the twin, or it is not instantiated anew yet.
  METRALE_TWIN_STATE_STALE = 2,
  /// There was.
  METRALE_TWIN_STATE_RETIRED = 3,
} metrale_twin_state;

/// How much is measured.
typedef enum {
  /// Nothing.
  METRALE_LEVEL_OFF = 0,
  /// Counts and wall times on the host; no driver call.
  METRALE_LEVEL_BASIC = 1,
  /// The same, and GPU times of lanes on each step and of launches on some.
  METRALE_LEVEL_KERNEL = 2,
} metrale_level;

/// Which launches are timed.
typedef enum {
  /// All of one step in each block of N, chosen by a hash.
  METRALE_SAMPLING_HASHED = 0,
  /// All of the first step of each block of N.
  METRALE_SAMPLING_EVERY_NTH = 1,
  /// One launch of each block of N launches, chosen by a hash.
  METRALE_SAMPLING_SPREAD = 2,
} metrale_sampling;

/// Times lanes and launches of one context. NULL is a recorder that measures nothing,
/// for a server that goes on without: every function takes it.
typedef struct metrale_recorder metrale_recorder;

/// The telemetry of one GPU: recorders land their times in it, and anybody reads
/// it at any moment. It lives as long as the process.
typedef struct metrale_telemetry metrale_telemetry;

/// A graph of the application with a second executable that has marks.
typedef struct metrale_twin metrale_twin;

/// Options of the twins of a recorder. What is 0 or false is the default.
typedef struct {
  /// Marks of a twin, 5 to 65,536; 32 by default.
  uint64_t marks;
  /// Twins that there can be at once, 1 to 1,024; 4 by default.
  uint64_t resident;
  /// Nodes of the largest graph that gets a twin; 4,096 by default.
  uint64_t nodes;
  /// Device memory of all twins together, where 10 kB are reckoned for a node; 64 MiB
  /// by default.
  uint64_t bytes;
  /// Launches that a plan of windows lives for; 32 by default.
  uint32_t plan_launches;
  /// The twin is launched on every armed step, not on one in two.
  bool always;
} metrale_twins;

/// Options of a recorder. What is 0, false or NULL is the default.
typedef struct {
  /// Tells recorders of one process apart; "0" by default.
  const char *label;
  /// What stands for the GPU in metrics; by default the driver is asked.
  const char *gpu;
  /// Lanes that may wait to be read; 1,024 by default.
  uint64_t lane_slots;
  /// Timed launches that may wait to be read; 8,192 by default.
  uint64_t kernel_slots;
  /// How often the recorder's own thread harvests; 10 ms by default.
  uint64_t harvest_interval_ns;
  /// How long `metrale_recorder_harvest` polls; 5 ms by default.
  uint64_t harvest_budget_ns;
  /// A span left open for so long is given up; 60 s by default.
  uint64_t reclaim_after_ns;
  /// No thread is started: the application calls `metrale_recorder_harvest`.
  bool harvest_explicitly;
  /// Nothing is timed on the legacy default stream.
  bool refuse_legacy_streams;
  /// It is not measured, at the start, what measuring costs.
  bool skip_floor;
  /// The recorder makes twins of graphs, with these options. NULL: none.
  const metrale_twins *twins;
} metrale_config;

/// How a recorder gets on with the driver. Counts are since it was made.
typedef struct {
  /// The driver's status that stopped the recorder for good; 0: it runs.
  uint32_t quarantined;
  /// Polls that the driver did not allow.
  uint64_t polls_refused;
  /// Polls that took over a millisecond.
  uint64_t slow_polls;
  /// How often slow polls stopped polling for ten seconds.
  uint64_t polling_stops;
  /// Harvests that polled nothing, because polls were slow or refused.
  uint64_t harvests_skipped;
  /// The least time between two harvests now; 0 at the full rate.
  uint64_t harvest_interval_ns;
  /// Times that cannot be.
  uint64_t invalid_times;
  /// Names that found no room.
  uint64_t names_lost;
  /// How long the oldest span waits that was begun and not ended;
  /// `METRALE_UNKNOWN`: there is none.
  uint64_t oldest_open_ns;
  /// The same of those that were ended and not read: work that never ends, or a call
  /// into the driver that does not come back.
  uint64_t oldest_closed_ns;
} metrale_health;

/// A serving step, which `metrale_step_begin` fills. It may change threads.
typedef struct {
  /// How many steps came before; `METRALE_UNKNOWN`: it is not measured.
  uint64_t number;
  /// The library's.
  uint64_t state;
  /// The library's.
  uint64_t began_ns;
} metrale_step;

/// A lane of a step, which `metrale_lane_begin` fills. It may change threads.
typedef struct {
  /// The step's.
  uint64_t number;
  /// The library's.
  uint64_t state;
  /// The library's.
  uint64_t token;
  /// The library's.
  uint64_t began_ns;
  /// Which lane.
  uint64_t lane;
} metrale_lane;

/// What launches an executable on a stream, and answers with the driver's status: the
/// program's `cuGraphLaunch` or `cudaGraphLaunch`.
typedef uint32_t (*metrale_launch)(void *exec, void *stream);

/// A graph with its executable.
typedef struct {
  /// The `CUgraph` that the executable was made of, unchanged since.
  void *graph;
  /// The `CUgraphExec`.
  void *exec;
  /// The flags that it was instantiated with; `METRALE_UNKNOWN`: the driver is asked, from
  /// CUDA 12.0 on.
  uint64_t flags;
  /// What launches it; NULL: `cuGraphLaunch`. A program with per-thread default streams
  /// needs its own.
  metrale_launch launch;
} metrale_graph;

/// Makes an update of an executable, and answers with the driver's status. `nodes` are
/// those to pass for the ones that `metrale_twin_follow` was given, as many. It neither
/// throws nor jumps out, and calls nothing about the twin.
typedef uint32_t (*metrale_update)(void *data, void *exec, void *const *nodes, size_t count);

/// Where a reader is in the log of records: all 0 at its start.
typedef struct {
  /// The next record.
  uint64_t next;
  /// Records that were overwritten before this reader came to them.
  uint64_t missed;
} metrale_cursor;

/// A lane's part of a record.
typedef struct {
  /// Spans of the lane whose time was read.
  uint32_t spans;
  /// Spans among them whose gap is known.
  uint32_t gaps;
  /// GPU nanoseconds of the spans.
  uint64_t gpu_ns;
  /// GPU nanoseconds of the gaps before them.
  uint64_t gap_ns;
} metrale_lane_record;

/// What is known of a step once it is over.
typedef struct {
  /// How many steps came before it.
  uint64_t number;
  /// Host nanoseconds from its begin to its end; `METRALE_UNKNOWN`: not measured.
  uint64_t wall_ns;
  /// When it ended, by CLOCK_MONOTONIC; `METRALE_UNKNOWN`: not measured.
  uint64_t ended_ns;
  /// What `metrale_step_shape` stated; 0 where it did not.
  uint32_t prompt_tokens;
  /// The same.
  uint32_t decode_tokens;
  /// The same.
  uint32_t requests;
  /// A shape was stated.
  bool has_shape;
  /// Its launches were timed too.
  bool armed;
  /// A lane's span was lost, or began after the end: the lanes took more.
  bool incomplete;
  /// A twin ran in it: what its marks took of the GPU is in the lanes' time.
  bool marked;
  /// Its lanes by number; those that it did not have are 0.
  metrale_lane_record lanes[METRALE_MAX_LANES];
} metrale_step_record;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// The library's version, as in "0.1.0".
/// Any thread, at any time; the string is the library's.
const char *metrale_version(void);

/// The `METRALE_ABI_VERSION` that the library was built with.
/// Any thread, at any time.
uint32_t metrale_abi_version(void);

/// Why the last call of this thread failed that did fail; empty before. The
/// string is the library's, good until another call of this thread fails.
/// Any thread, at any time: each has its own text.
const char *metrale_last_error(void);

/// How often a call answered `METRALE_STATUS_PANICKED` in this process.
/// Any thread, at any time.
uint64_t metrale_panics(void);

/// The telemetry of a process that serves on one GPU. It is never NULL.
/// Any thread, at any time.
const metrale_telemetry *metrale_telemetry_global(void);

/// One more telemetry, for one more GPU. It lives as long as the process: make one
/// for each GPU, at the start.
///
/// # Safety
/// Any thread. `telemetry` takes the answer.
metrale_status metrale_telemetry_create(const metrale_telemetry **telemetry);

/// Changes how much is measured: a `metrale_level`. Spans that are open can still be
/// ended and harvested.
///
/// # Safety
/// Any thread, at any time. `telemetry` is one that this library gave.
metrale_status metrale_telemetry_set_level(const metrale_telemetry *telemetry, uint32_t level);

/// Changes level and sampling, a `metrale_level` and a `metrale_sampling`, where one
/// step or launch in `every` (1 or more) is chosen; `seed` is the hash's. A new
/// telemetry has `METRALE_LEVEL_KERNEL`, `METRALE_SAMPLING_HASHED`, 64 and 0.
///
/// # Safety
/// Any thread, at any time; a step that begins meanwhile may see some of the old
/// values. `telemetry` is one that this library gave.
metrale_status metrale_telemetry_configure(const metrale_telemetry *telemetry,
                                           uint32_t level,
                                           uint32_t sampling,
                                           uint64_t every,
                                           uint64_t seed);

/// Names up to 13 lanes beside admit, prefill and decode; the first is number 3. Once,
/// before the telemetry's first recorder is made: `METRALE_STATUS_REFUSED` after that.
///
/// # Safety
/// Any thread. `telemetry` is one that this library gave, `names` are `count` C
/// strings, which are copied.
metrale_status metrale_telemetry_name_lanes(const metrale_telemetry *telemetry,
                                            const char *const *names,
                                            size_t count);

/// Everything that was measured, as JSON. The string is the caller's:
/// `metrale_string_free` frees it.
///
/// # Safety
/// Any thread, at any time; serving threads do not wait for it. `telemetry` is one
/// that this library gave, `json` takes the answer.
metrale_status metrale_telemetry_snapshot(const metrale_telemetry *telemetry, char **json);

/// The metrics of `count` telemetries as text, to answer a Prometheus scrape with
/// (`text/plain; version=0.0.4`) or to append to a page of that format. The 20 kernels
/// with the most time get series, from the first call on. The string is the caller's:
/// `metrale_string_free` frees it.
///
/// # Safety
/// Any thread, at any time; serving threads do not wait for it. `telemetries` are ones
/// that this library gave, `page` takes the answer.
metrale_status metrale_prometheus(const metrale_telemetry *const *telemetries,
                                  size_t count,
                                  char **page);

/// Frees a string that this library gave as `char *`; NULL is none.
///
/// # Safety
/// Any thread, once for each string.
void metrale_string_free(char *string);

/// Makes a recorder of `context` (a `CUcontext`; NULL: the one that is current on this
/// thread), whose times land in `telemetry`. Several contexts of one GPU share a
/// telemetry; another GPU has another one. Call it after the context was made and
/// before any graph is captured, with `abi` METRALE_ABI_VERSION; `config` NULL is all
/// defaults. Where it fails, `*recorder` is NULL, with which the server goes on, and
/// `metrale_last_error` says why.
///
/// # Safety
/// Any thread. `telemetry` is one that this library gave, `recorder` takes the answer,
/// and `metrale_recorder_close` is called before the context is destroyed or reset.
metrale_status metrale_recorder_create(uint32_t abi,
                                       void *context,
                                       const metrale_telemetry *telemetry,
                                       const metrale_config *config,
                                       metrale_recorder **recorder);

/// Stops measuring, destroys the events and frees the recorder. Events are left to the
/// driver where destroying them could block or hit another context: after a status that
/// stopped the recorder, once the context was reset, at exit and in a forked child. What
/// was measured stays in the telemetry.
///
/// # Safety
/// Any thread, once, and no call with this recorder is in progress or comes later.
metrale_status metrale_recorder_close(metrale_recorder *recorder);

/// Reads what the GPU has finished; `landed` (NULL: nobody asks) takes how many spans
/// that were. It never waits for the GPU, but a poll may block in the driver. Only a
/// recorder that harvests explicitly needs it.
///
/// # Safety
/// Any thread, at any time: of two at once the second does nothing.
metrale_status metrale_recorder_harvest(const metrale_recorder *recorder, uint64_t *landed);

/// Reads every span that was ended, for at most `within_ns`: synchronise first, then it
/// returns as soon as all are read, later where the driver is slow. `left` (NULL: nobody asks) takes how many are not.
///
/// # Safety
/// Any thread, at any time.
metrale_status metrale_recorder_drain(const metrale_recorder *recorder,
                                      uint64_t within_ns,
                                      uint64_t *left);

/// Whether the recorder may call the driver, and what it met there.
///
/// # Safety
/// Any thread, at any time, also while a harvest hangs. `health` takes the answer.
metrale_status metrale_recorder_health(const metrale_recorder *recorder,
                                       metrale_health *health);

/// Names a function (a `CUfunction`, or any other address that stands for a kernel); the
/// driver is not asked for its name then. Without this it is, at its first timed launch.
///
/// # Safety
/// Any thread, at any time. `name` is a C string, which is copied.
metrale_status metrale_recorder_name(const metrale_recorder *recorder,
                                     const void *function,
                                     const char *name);

/// Says, before a module is unloaded, that a function of it is gone: another kernel may
/// get its address.
///
/// # Safety
/// Any thread, at any time.
metrale_status metrale_recorder_forget(const metrale_recorder *recorder, const void *function);

/// The number of the graph of that name, for `metrale_graph_begin`. The same name gives
/// the same number. Call it when the graph is made, not when it is launched: it takes a
/// lock and may allocate.
///
/// # Safety
/// Any thread, at any time. `name` is a C string, which is copied; `graph` takes the
/// answer.
metrale_status metrale_recorder_graph(const metrale_recorder *recorder,
                                      const char *name,
                                      uint64_t *graph);

/// The number of the region of that name, for `metrale_region_begin`: work without a
/// function of the application's, as library calls, collectives and sampling. As
/// `metrale_recorder_graph`: call it once.
///
/// # Safety
/// Any thread, at any time. `name` is a C string, which is copied; `region` takes the
/// answer.
metrale_status metrale_recorder_region(const metrale_recorder *recorder,
                                       const char *name,
                                       uint64_t *region);

/// As `metrale_recorder_region`, of copies and sets of memory.
///
/// # Safety
/// Any thread, at any time. `name` is a C string, which is copied; `region` takes the
/// answer.
metrale_status metrale_recorder_copy(const metrale_recorder *recorder,
                                     const char *name,
                                     uint64_t *region);

/// Begins a serving step. Nothing is measured at `METRALE_LEVEL_OFF`, or with a recorder
/// that is NULL.
///
/// # Safety
/// Any thread, at any time. `step` takes the answer; it need hold nothing before.
metrale_status metrale_step_begin(const metrale_recorder *recorder, metrale_step *step);

/// Whether all of the step's launches are timed, and laid out in time.
///
/// # Safety
/// Any thread. `step` is one that `metrale_step_begin` filled; NULL is not armed.
bool metrale_step_is_armed(const metrale_step *step);

/// States what the step is made of; the last statement before its end counts.
///
/// # Safety
/// Any thread. `recorder` is the step's, `step` one that `metrale_step_begin` filled.
metrale_status metrale_step_shape(const metrale_recorder *recorder,
                                  const metrale_step *step,
                                  uint32_t prompt_tokens,
                                  uint32_t decode_tokens,
                                  uint32_t requests);

/// Ends a step, after its lanes; once more does nothing.
///
/// # Safety
/// Any thread, one at a time for each step. `recorder` is the step's, `step` one that
/// `metrale_step_begin` filled.
metrale_status metrale_step_end(const metrale_recorder *recorder, metrale_step *step);

/// Begins a lane of a step on a stream (a `CUstream` or `cudaStream_t`): METRALE_LANE_ADMIT,
/// _PREFILL, _DECODE, or one that was named, from 3 on. It is timed on every step; one that
/// is not there is refused, and counted. NULL is the legacy default stream, also in a
/// program built with per-thread default streams: such a one passes 2.
///
/// # Safety
/// Any thread. `recorder` is the step's, `step` one that `metrale_step_begin` filled, the
/// stream exists and is of the recorder's context; `lane` takes the answer.
metrale_status metrale_lane_begin(const metrale_recorder *recorder,
                                  const metrale_step *step,
                                  uint32_t index,
                                  void *stream,
                                  metrale_lane *lane);

/// Ends a lane on its stream; once more does nothing.
///
/// # Safety
/// Any thread, one at a time for each lane. `recorder` is the lane's, `lane` one that
/// `metrale_lane_begin` filled, and the stream exists.
metrale_status metrale_lane_end(const metrale_recorder *recorder,
                                metrale_lane *lane,
                                void *stream);

/// Gives up a lane that will not be ended: nothing of it is counted.
///
/// # Safety
/// Any thread, one at a time for each lane. `recorder` is the lane's, `lane` one that
/// `metrale_lane_begin` filled.
metrale_status metrale_lane_cancel(const metrale_recorder *recorder, metrale_lane *lane);

/// Begins a launch of a kernel in a lane, on the stream that it is launched on; call it
/// right before the launch. It is counted on every step and timed where the sampling chose
/// it: `*token` is 0 where it is not timed. Where the launch fails, cancel it.
///
/// # Safety
/// Any thread. `recorder` is the lane's, `lane` one that `metrale_lane_begin` filled, the
/// stream exists and is of the recorder's context; `function` is a loaded `CUfunction`, or
/// was named by `metrale_recorder_name` and not forgotten; `token` takes the answer.
metrale_status metrale_launch_begin(const metrale_recorder *recorder,
                                    const metrale_lane *lane,
                                    const void *function,
                                    void *stream,
                                    uint64_t *token);

/// As `metrale_launch_begin`, of a graph that is launched whole; `graph` is a number of
/// `metrale_recorder_graph`.
///
/// # Safety
/// Any thread. `recorder` is the lane's, `lane` one that `metrale_lane_begin` filled, the
/// stream exists and is of the recorder's context; `token` takes the answer.
metrale_status metrale_graph_begin(const metrale_recorder *recorder,
                                   const metrale_lane *lane,
                                   uint64_t graph,
                                   void *stream,
                                   uint64_t *token);

/// As `metrale_launch_begin`, of a region; `region` is a number of `metrale_recorder_region`
/// or `_copy`. It is no launch in any count, and may have launches and regions within it.
///
/// # Safety
/// Any thread. `recorder` is the lane's, `lane` one that `metrale_lane_begin` filled, the
/// stream exists and is of the recorder's context; `token` takes the answer.
metrale_status metrale_region_begin(const metrale_recorder *recorder,
                                    const metrale_lane *lane,
                                    uint64_t region,
                                    void *stream,
                                    uint64_t *token);

/// Ends a launch, graph or region on its stream, right after its work was put there. A token of 0 does nothing; one
/// that was ended before is counted, and does nothing.
///
/// # Safety
/// Any thread. `recorder` is the one that gave the token, and the stream exists.
metrale_status metrale_span_end(const metrale_recorder *recorder,
                                uint64_t token,
                                void *stream);

/// Gives up a launch, graph or region that failed: no time of it is kept. A token of 0 does nothing.
///
/// # Safety
/// Any thread. `recorder` is the one that gave the token.
metrale_status metrale_span_cancel(const metrale_recorder *recorder,
                                   uint64_t token);

/// Makes a twin of a graph, at once, under the graph's name (the row that
/// `metrale_recorder_graph` has for it); `config.twins` of the recorder says how many there
/// may be. `is_updated` says whether the executable is changed later: each change then goes
/// through `metrale_twin_follow`, or `metrale_twin_replace` comes after it. A change that is
/// not told makes the twin compute with old parameters. Where there can be none,
/// `metrale_twin_state_of` says why, and replays launch the plain executable; so does a
/// twin of a recorder that is NULL.
///
/// # Safety
/// Any thread, which the twin stays on: all calls with it are made there. Graph and
/// executable are live ones of the recorder's context, no other thread uses them meanwhile,
/// and they go after the twin. `name` is a C string, which is copied; `twin` takes the answer.
metrale_status metrale_twin_create(const metrale_recorder *recorder,
                                   const metrale_graph *graph,
                                   const char *name,
                                   bool is_updated,
                                   metrale_twin **twin);

/// Launches the graph on a stream, in place of `cuGraphLaunch`: the twin instead of the
/// plain executable where nothing speaks against it. It is counted and timed in the lane as by
/// `metrale_graph_begin`; with `lane` NULL it is in none. Where the launch fails, the answer
/// is `METRALE_STATUS_CALL`, and `result` (NULL: nobody asks) has the driver's; it is 0 where
/// the graph was launched. `METRALE_STATUS_ARGUMENT`: nothing was launched.
///
/// # Safety
/// Any thread, if it is the one that made the twin, with the recorder's context current.
/// `recorder` is the lane's, `lane` one that `metrale_lane_begin` filled, and the stream exists
/// until the replay is over.
metrale_status metrale_twin_replay(const metrale_recorder *recorder,
                                   const metrale_lane *lane,
                                   const metrale_twin *twin,
                                   void *stream,
                                   uint32_t *result);

/// Makes an update of the executable's nodes for the plain one and for the twin: `update` is
/// called for each with `data`, the plain one first, with the `count` nodes of that
/// executable that stand for `nodes` of the graph. The answer and `result` are those for the
/// plain one, as of `metrale_twin_replay`. Where the twin does not take the update it is
/// stale, and launched no more until it is replaced.
///
/// # Safety
/// Any thread, if it is the one that made the twin. `nodes` are `count` nodes of the graph.
metrale_status metrale_twin_follow(const metrale_twin *twin,
                                   void *const *nodes,
                                   size_t count,
                                   metrale_update update,
                                   void *data,
                                   uint32_t *result);

/// Makes the twin anew, of a graph by which the application updated its executable as a whole
/// (`cuGraphExecUpdate`). Call it before the next replay.
///
/// # Safety
/// Any thread, if it is the one that made the twin. `graph` is a live `CUgraph` of the
/// recorder's context, and no other thread uses it now.
metrale_status metrale_twin_replace(const metrale_twin *twin, void *graph);

/// Moves on to the next windows of a graph that is larger than `marks`, where the last ones
/// were launched often enough; a look otherwise. Call it between steps, as often as you like.
///
/// # Safety
/// Any thread, if it is the one that made the twin.
metrale_status metrale_twin_renew(const metrale_twin *twin);

/// Takes the twin down, as it must be before a communicator is destroyed whose kernels are in
/// the graph. From now on replays launch the plain executable.
///
/// # Safety
/// Any thread, if it is the one that made the twin.
metrale_status metrale_twin_retire(const metrale_twin *twin);

/// Whether there is a twin to launch; `why` (NULL: nobody asks) takes why it was refused or
/// retired, else NULL. The string is the caller's: `metrale_string_free` frees it.
///
/// # Safety
/// Any thread, if it is the one that made the twin. `state` takes the answer.
metrale_status metrale_twin_state_of(const metrale_twin *twin,
                                     metrale_twin_state *state,
                                     char **why);

/// Takes the twin down and frees it; NULL is none. The graph's figures stay.
///
/// # Safety
/// Any thread, if it is the one that made the twin, once: before graph and executable are
/// destroyed, and before or after the recorder is closed.
metrale_status metrale_twin_free(metrale_twin *twin);

/// The next record for a reader with a place of its own: `METRALE_STATUS_NOTHING`, and
/// `record` as it was, where there is none yet. The last 1,024 are kept.
///
/// # Safety
/// Any thread, one at a time for each cursor; serving threads do not wait for it.
/// `telemetry` is one that this library gave, `cursor` is all 0 at first and left alone
/// then, `record` takes the answer.
metrale_status metrale_telemetry_next_record(const metrale_telemetry *telemetry,
                                             metrale_cursor *cursor,
                                             metrale_step_record *record);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* METRALE_H */
