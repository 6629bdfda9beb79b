// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls the functions of metrale.h, but for those of twins, over an application that knows what its work takes.
// It prints its own sums, `name value` a line, and then the snapshot: they must agree.
#include "check.h"
#include <cuda.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

enum { STEPS = 100, THREADS = 3, DRAFT = 3, LANES = 4 };

static CUdevice device;
static CUcontext context;
static CUfunction attention, gemm;
static CUgraphExec exec;
static uint64_t graph, sampling, copy;
static const metrale_telemetry *telemetry;
static metrale_recorder *recorder;

// Held for a step, so that the one does not move the other's virtual time.
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static atomic_int served;

static CUresult launch(CUfunction function, CUstream stream, uint64_t duration_ns) {
  void *arguments[] = {&duration_ns};
  return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

// What a thread's work took, by its own account.
typedef struct {
  uint64_t lanes[LANES], spans[LANES], attention_ns, gemm_ns, graph_ns, sampling_ns, copy_ns;
  CUstream stream;
} account;

static void time_launch(account *own, metrale_lane *lane, CUfunction function, uint64_t ns) {
  uint64_t span;
  OK(metrale_launch_begin(recorder, lane, function, own->stream, &span));
  CHECK(span != 0);
  CUDA(launch(function, own->stream, ns));
  OK(metrale_span_end(recorder, span, own->stream));
  *(function == gemm ? &own->gemm_ns : &own->attention_ns) += ns;
  own->lanes[lane->lane] += ns;
}

static void time_graph(account *own, metrale_lane *lane) {
  uint64_t span;
  OK(metrale_graph_begin(recorder, lane, graph, own->stream, &span));
  CUDA(cuGraphLaunch(exec, own->stream));
  OK(metrale_span_end(recorder, span, own->stream));
  own->graph_ns += 7000;
  own->lanes[lane->lane] += 7000;
}

// A launch that the driver refuses leaves no time.
static void fail_launch(account *own, metrale_lane *lane) {
  uint64_t span;
  OK(metrale_launch_begin(recorder, lane, gemm, own->stream, &span));
  CHECK(launch(NULL, own->stream, 1) != CUDA_SUCCESS);
  OK(metrale_span_cancel(recorder, span));
}

static void begin_lane(account *own, metrale_step *step, uint32_t index, metrale_lane *lane) {
  OK(metrale_lane_begin(recorder, step, index, own->stream, lane));
  own->spans[index]++;
}

static void *serve(void *argument) {
  account *own = argument;
  CUDA(cuCtxSetCurrent(context));
  CUDA(cuStreamCreate(&own->stream, CU_STREAM_NON_BLOCKING));
  for (uint32_t at = 0; at < STEPS; at++) {
    metrale_step step;
    metrale_lane lane;
    CHECK(pthread_mutex_lock(&turn) == 0);
    OK(metrale_step_begin(recorder, &step));
    CHECK(step.number != METRALE_UNKNOWN && metrale_step_is_armed(&step));
    OK(metrale_step_shape(recorder, &step, 1000, 8, 9));

    begin_lane(own, &step, METRALE_LANE_PREFILL, &lane);
    time_launch(own, &lane, gemm, 40000 + at);
    time_launch(own, &lane, attention, 20000 + at);
    OK(metrale_lane_end(recorder, &lane, own->stream));

    begin_lane(own, &step, METRALE_LANE_DECODE, &lane);
    time_graph(own, &lane);
    fail_launch(own, &lane);
    OK(metrale_lane_end(recorder, &lane, own->stream));
    OK(metrale_lane_end(recorder, &lane, own->stream)); // once more does nothing

    begin_lane(own, &step, DRAFT, &lane);
    uint64_t outer, inner;
    OK(metrale_region_begin(recorder, &lane, sampling, own->stream, &outer));
    time_launch(own, &lane, attention, 3000);
    OK(metrale_region_begin(recorder, &lane, copy, own->stream, &inner));
    CUDA(launch(gemm, own->stream, 500)); // stands for a copy
    OK(metrale_span_end(recorder, inner, own->stream));
    OK(metrale_span_end(recorder, outer, own->stream));
    own->copy_ns += 500;
    own->sampling_ns += 3500;
    own->lanes[DRAFT] += 500;
    OK(metrale_lane_end(recorder, &lane, own->stream));

    OK(metrale_lane_begin(recorder, &step, METRALE_LANE_ADMIT, own->stream, &lane));
    OK(metrale_lane_cancel(recorder, &lane));
    OK(metrale_step_end(recorder, &step));
    OK(metrale_step_end(recorder, &step)); // once more does nothing
    CUDA(cuStreamSynchronize(own->stream));
    uint64_t left;
    OK(metrale_recorder_harvest(recorder, NULL));
    OK(metrale_recorder_drain(recorder, PATIENCE_NS, &left)); // harvests pause where polls are slow
    CHECK(left == 0);
    CHECK(pthread_mutex_unlock(&turn) == 0);
  }
  CUDA(cuStreamDestroy(own->stream));
  return NULL;
}

// Reads all there is to read, while others serve.
static void *watch(void *unused) {
  while (!served) {
    char *json;
    metrale_health health;
    OK(metrale_telemetry_snapshot(telemetry, &json));
    metrale_string_free(json);
    OK(metrale_recorder_health(recorder, &health));
  }
  return unused;
}

// What cannot be used is refused, and told by its name.
static void refuse(void) {
  metrale_step step;
  metrale_lane lane, unused;
  metrale_cursor cursor = {0, 0};
  metrale_step_record record;
  char *text;
  uint64_t span, row;
  OK(metrale_step_begin(recorder, &step));
  OK(metrale_lane_begin(recorder, &step, METRALE_LANE_DECODE, NULL, &lane));

  NULL_REFUSED(metrale_step_begin(recorder, NULL), "step");
  NULL_REFUSED(metrale_step_shape(recorder, NULL, 1, 1, 1), "step");
  NULL_REFUSED(metrale_step_end(recorder, NULL), "step");
  CHECK(!metrale_step_is_armed(NULL));
  NULL_REFUSED(metrale_lane_begin(recorder, NULL, 0, NULL, &unused), "step");
  NULL_REFUSED(metrale_lane_begin(recorder, &step, 0, NULL, NULL), "lane");
  NULL_REFUSED(metrale_lane_end(recorder, NULL, NULL), "lane");
  NULL_REFUSED(metrale_lane_cancel(recorder, NULL), "lane");
  NULL_REFUSED(metrale_launch_begin(recorder, NULL, gemm, NULL, &span), "lane");
  NULL_REFUSED(metrale_launch_begin(recorder, &lane, gemm, NULL, NULL), "token");
  NULL_REFUSED(metrale_graph_begin(recorder, &lane, graph, NULL, NULL), "token");
  NULL_REFUSED(metrale_recorder_health(recorder, NULL), "health");
  NULL_REFUSED(metrale_recorder_name(recorder, gemm, NULL), "name");
  NULL_REFUSED(metrale_recorder_graph(recorder, NULL, &row), "name");
  NULL_REFUSED(metrale_recorder_graph(recorder, "g", NULL), "number");
  NULL_REFUSED(metrale_region_begin(recorder, &lane, sampling, NULL, NULL), "token");
  NULL_REFUSED(metrale_telemetry_create(NULL), "telemetry");
  NULL_REFUSED(metrale_telemetry_set_level(NULL, METRALE_LEVEL_OFF), "telemetry");
  NULL_REFUSED(metrale_telemetry_snapshot(NULL, &text), "telemetry");
  NULL_REFUSED(metrale_telemetry_snapshot(telemetry, NULL), "json");
  NULL_REFUSED(metrale_telemetry_name_lanes(telemetry, NULL, 1), "names");
  NULL_REFUSED(metrale_telemetry_next_record(telemetry, NULL, &record), "cursor");
  NULL_REFUSED(metrale_telemetry_next_record(telemetry, &cursor, NULL), "record");
  NULL_REFUSED(metrale_prometheus(NULL, 1, &text), "telemetries");
  NULL_REFUSED(metrale_recorder_create(METRALE_ABI_VERSION, NULL, telemetry, NULL, NULL), "recorder");
  REFUSED(metrale_step_begin((metrale_recorder *)((char *)recorder + 1), &step),
          METRALE_STATUS_ARGUMENT, "recorder is misaligned");
  CHECK(step.number == METRALE_UNKNOWN); // what failed is not measured

  REFUSED(metrale_telemetry_set_level(telemetry, 7), METRALE_STATUS_ARGUMENT, "level is 7");
  REFUSED(metrale_telemetry_configure(telemetry, 2, 9, 1, 0), METRALE_STATUS_ARGUMENT, "sampling is 9");
  REFUSED(metrale_telemetry_configure(telemetry, 2, 0, 0, 0), METRALE_STATUS_ARGUMENT, "`every`");
  REFUSED(metrale_recorder_name(recorder, gemm, "\xff"), METRALE_STATUS_ARGUMENT, "not UTF-8");
  const char *names[] = {"late"};
  REFUSED(metrale_telemetry_name_lanes(telemetry, names, 1), METRALE_STATUS_REFUSED, "already");

  metrale_recorder *other;
  REFUSED(metrale_recorder_create(METRALE_ABI_VERSION + 1, NULL, telemetry, NULL, &other),
          METRALE_STATUS_ABI, "metrale.h");
  CHECK(other == NULL);
  metrale_config many = {.kernel_slots = UINT64_MAX};
  REFUSED(metrale_recorder_create(METRALE_ABI_VERSION, NULL, telemetry, &many, &other),
          METRALE_STATUS_ARGUMENT, "kernel_slots");
  metrale_config elsewhere = {.gpu = "another GPU"};
  REFUSED(metrale_recorder_create(METRALE_ABI_VERSION, NULL, telemetry, &elsewhere, &other),
          METRALE_STATUS_REFUSED, "another GPU");
  CUDA(cuCtxSetCurrent(NULL));
  REFUSED(metrale_recorder_create(METRALE_ABI_VERSION, NULL, telemetry, NULL, &other),
          METRALE_STATUS_CONTEXT, "context");
  CUDA(cuCtxSetCurrent(context));

  OK(metrale_lane_cancel(recorder, &lane));
  OK(metrale_span_end(recorder, UINT64_MAX, NULL)); // counted, and does nothing
  OK(metrale_span_end(recorder, 0, NULL));
  OK(metrale_span_cancel(recorder, 0));
}

// A recorder that is NULL, and level `Off`, measure nothing and refuse nothing.
static void unmeasured(const metrale_recorder *of) {
  metrale_step step;
  metrale_lane lane;
  metrale_health health;
  uint64_t span = 7, row = 7, count = 7;
  OK(metrale_step_begin(of, &step));
  CHECK(step.number == METRALE_UNKNOWN && !metrale_step_is_armed(&step));
  OK(metrale_step_shape(of, &step, 1, 1, 1));
  OK(metrale_lane_begin(of, &step, METRALE_LANE_DECODE, NULL, &lane));
  OK(metrale_launch_begin(of, &lane, gemm, NULL, &span));
  CHECK(span == 0);
  OK(metrale_graph_begin(of, &lane, graph, NULL, &span));
  CHECK(span == 0);
  OK(metrale_region_begin(of, &lane, sampling, NULL, &span));
  CHECK(span == 0);
  OK(metrale_span_end(of, span, NULL));
  OK(metrale_span_cancel(of, span));
  OK(metrale_lane_end(of, &lane, NULL));
  OK(metrale_lane_cancel(of, &lane));
  OK(metrale_step_end(of, &step));
  OK(metrale_recorder_harvest(of, &count));
  CHECK(count == 0);
  OK(metrale_recorder_drain(of, 0, &count));
  CHECK(count == 0);
  OK(metrale_recorder_health(of, &health));
  CHECK(health.quarantined == 0 && health.oldest_open_ns == METRALE_UNKNOWN);
  if (of == NULL) {
    OK(metrale_recorder_name(of, gemm, "gemm"));
    OK(metrale_recorder_forget(of, gemm));
    OK(metrale_recorder_graph(of, "g", &row));
    CHECK(row == 0);
    OK(metrale_recorder_region(of, "r", &row));
    OK(metrale_recorder_copy(of, "c", &row));
    OK(metrale_recorder_close(NULL));
  }
}

static void read_records(const account *all) {
  metrale_cursor cursor = {0, 0};
  metrale_step_record record;
  uint64_t steps = 0, lanes[LANES] = {0}, spans[LANES] = {0};
  metrale_status next;
  while ((next = metrale_telemetry_next_record(telemetry, &cursor, &record)) == METRALE_STATUS_OK) {
    CHECK(record.armed && !record.incomplete && record.has_shape);
    CHECK(record.prompt_tokens == 1000 && record.decode_tokens == 8 && record.requests == 9);
    CHECK(record.wall_ns != METRALE_UNKNOWN && record.ended_ns >= record.wall_ns);
    for (int lane = 0; lane < LANES; lane++) {
      lanes[lane] += record.lanes[lane].gpu_ns;
      spans[lane] += record.lanes[lane].spans;
    }
    steps++;
  }
  CHECK(next == METRALE_STATUS_NOTHING);
  CHECK(steps == STEPS * THREADS && cursor.missed == 0);
  for (int lane = 0; lane < LANES; lane++)
    CHECK(lanes[lane] == all->lanes[lane] && spans[lane] == all->spans[lane]);
}

int main(void) {
  CUmodule module;
  CUstream stream;
  CUgraph captured;
  CHECK(strcmp(metrale_last_error(), "") == 0);
  CHECK(metrale_abi_version() == METRALE_ABI_VERSION && strlen(metrale_version()) >= 5);
  CHECK(metrale_telemetry_global() == metrale_telemetry_global());
  unmeasured(NULL);

  OK(metrale_telemetry_create(&telemetry));
  REFUSED(metrale_recorder_create(METRALE_ABI_VERSION, NULL, telemetry, NULL, &recorder),
          METRALE_STATUS_CONTEXT, "context"); // cuInit was not called
  CUDA(cuInit(0));
  CUDA(cuDeviceGet(&device, 0));
  CUDA(cuDevicePrimaryCtxRetain(&context, device));
  CUDA(cuCtxSetCurrent(context));
  CUDA(cuModuleLoadData(&module, PTX));
  CUDA(cuModuleGetFunction(&attention, module, "attention"));
  CUDA(cuModuleGetFunction(&gemm, module, "gemm"));

  const char *names[] = {"draft"};
  OK(metrale_telemetry_name_lanes(telemetry, names, 1));
  OK(metrale_telemetry_configure(telemetry, METRALE_LEVEL_KERNEL, METRALE_SAMPLING_HASHED, 1, 7));
  metrale_config config = {.label = "whole", .harvest_explicitly = true, .skip_floor = true};
  OK(metrale_recorder_create(METRALE_ABI_VERSION, NULL, telemetry, &config, &recorder));
  OK(metrale_recorder_name(recorder, gemm, "gemm of the program"));
  OK(metrale_recorder_graph(recorder, "decode, 8 requests", &graph));
  OK(metrale_recorder_region(recorder, "sampling", &sampling));
  OK(metrale_recorder_copy(recorder, "tokens to the host", &copy));

  CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CUDA(launch(attention, stream, 7000));
  CUDA(cuStreamEndCapture(stream, &captured));
  CUDA(cuGraphInstantiateWithFlags(&exec, captured, 0));
  CUDA(cuGraphDestroy(captured));
  CUDA(cuStreamDestroy(stream));

  account accounts[THREADS], all;
  pthread_t threads[THREADS], watcher;
  memset(accounts, 0, sizeof accounts);
  memset(&all, 0, sizeof all);
  CHECK(pthread_create(&watcher, NULL, watch, NULL) == 0);
  for (int at = 1; at < THREADS; at++)
    CHECK(pthread_create(&threads[at], NULL, serve, &accounts[at]) == 0);
  for (int at = 1; at < THREADS; at++)
    CHECK(pthread_join(threads[at], NULL) == 0);
  served = 1;
  CHECK(pthread_join(watcher, NULL) == 0);
  // Nobody reads meanwhile: the last records are there at its end.
  serve(&accounts[0]);
  for (int at = 0; at < THREADS; at++) {
    for (int lane = 0; lane < LANES; lane++) {
      all.lanes[lane] += accounts[at].lanes[lane];
      all.spans[lane] += accounts[at].spans[lane];
    }
    all.attention_ns += accounts[at].attention_ns;
    all.gemm_ns += accounts[at].gemm_ns;
    all.graph_ns += accounts[at].graph_ns;
    all.sampling_ns += accounts[at].sampling_ns;
    all.copy_ns += accounts[at].copy_ns;
  }

  metrale_health health;
  OK(metrale_recorder_health(recorder, &health));
  CHECK(health.quarantined == 0 && health.oldest_closed_ns == METRALE_UNKNOWN);
  read_records(&all);

  OK(metrale_telemetry_set_level(telemetry, METRALE_LEVEL_OFF));
  unmeasured(recorder);
  OK(metrale_telemetry_set_level(telemetry, METRALE_LEVEL_KERNEL));
  refuse();
  CHECK(metrale_panics() == 0);

  char *page, *json;
  OK(metrale_prometheus(&telemetry, 1, &page));
  CHECK(strstr(page, "# TYPE metrale_gpu_lane_seconds histogram\n") != NULL);
  metrale_string_free(page);
  OK(metrale_prometheus(NULL, 0, &page));
  CHECK(strcmp(page, "") == 0);
  metrale_string_free(page);
  metrale_string_free(NULL);

  OK(metrale_recorder_forget(recorder, attention));
  OK(metrale_recorder_close(recorder));
  CUDA(cuGraphExecDestroy(exec));
  CUDA(cuModuleUnload(module));
  CUDA(cuDevicePrimaryCtxRelease(device));

  OK(metrale_telemetry_snapshot(telemetry, &json));
  printf("admit %" PRIu64 "\nprefill %" PRIu64 "\ndecode %" PRIu64 "\ndraft %" PRIu64 "\n",
         all.lanes[0], all.lanes[1], all.lanes[2], all.lanes[DRAFT]);
  printf("attention %" PRIu64 "\ngemm of the program %" PRIu64 "\n", all.attention_ns, all.gemm_ns);
  printf("sampling %" PRIu64 "\ntokens to the host %" PRIu64 "\n", all.sampling_ns, all.copy_ns);
  printf("decode, 8 requests %" PRIu64 "\n%s\n", all.graph_ns, json);
  metrale_string_free(json);
  return 0;
}
