// SPDX-License-Identifier: MIT OR Apache-2.0
// A program that replays a graph with a twin, updates its nodes and then all of it. It
// prints its own account of what ran inside the graph, `name value` a line, and then the
// snapshot: they must agree.
#include "check.h"
#include <cuda.h>
#include <inttypes.h>

enum { REPLAYS = 20, NODES = 3 };

static CUcontext context;
static CUstream stream;
static CUfunction attention, gemm;
static const metrale_telemetry *telemetry;
static metrale_recorder *recorder;

static uint64_t duration_ns[NODES] = {7000, 2000, 5000};
// What ran in replays, but for the first, which is the plain graph's.
static uint64_t attention_ns, gemm_ns, launches, replays;
static uint32_t refusal;

static CUgraph capture(void) {
  CUgraph captured;
  CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  for (int node = 0; node < NODES; node++) {
    void *arguments[] = {&duration_ns[node]};
    CUfunction function = node == 1 ? gemm : attention;
    CUDA(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
  }
  CUDA(cuStreamEndCapture(stream, &captured));
  return captured;
}

static uint32_t launch(void *exec, void *on) {
  launches++;
  return refusal ? refusal : (uint32_t)cuGraphLaunch(exec, on);
}

static void replay(const metrale_twin *twin, metrale_status expected) {
  metrale_step step;
  metrale_lane lane;
  uint32_t result = 7;
  OK(metrale_step_begin(recorder, &step));
  OK(metrale_lane_begin(recorder, &step, METRALE_LANE_DECODE, stream, &lane));
  CHECK(metrale_twin_replay(recorder, &lane, twin, stream, &result) == expected);
  CHECK(result == refusal);
  OK(metrale_lane_end(recorder, &lane, stream));
  OK(metrale_step_end(recorder, &step));
  CUDA(cuStreamSynchronize(stream));
  OK(metrale_recorder_harvest(recorder, NULL));
  OK(metrale_recorder_drain(recorder, PATIENCE_NS, NULL));
}

static void replay_many(const metrale_twin *twin) {
  for (int at = 0; at < REPLAYS; at++) {
    replay(twin, METRALE_STATUS_OK);
    if (replays++ > 0) {
      attention_ns += duration_ns[0] + duration_ns[2];
      gemm_ns += duration_ns[1];
    }
  }
}

static void is(const metrale_twin *twin, metrale_twin_state expected, const char *text) {
  metrale_twin_state state;
  char *why;
  OK(metrale_twin_state_of(twin, &state, &why));
  CHECK(state == expected && (text == NULL ? why == NULL : strstr(why, text) != NULL));
  metrale_string_free(why);
  OK(metrale_twin_state_of(twin, &state, NULL));
}

// The gemm, and then the last attention, take so long from now on.
static uint32_t lengthen(void *data, void *exec, void *const *nodes, size_t count) {
  CHECK(count == 2);
  (*(int *)data)++;
  for (size_t at = 0; at < count; at++) {
    void *arguments[] = {&duration_ns[at + 1]};
    CUDA_KERNEL_NODE_PARAMS params = {.func = at == 0 ? gemm : attention,
                                      .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
                                      .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1,
                                      .kernelParams = arguments};
    CUresult set = cuGraphExecKernelNodeSetParams(exec, nodes[at], &params);
    if (set != CUDA_SUCCESS)
      return set;
  }
  return 0;
}

static void refuse(const metrale_graph *graph, const metrale_twin *twin) {
  metrale_twin *other;
  metrale_twin_state state;
  metrale_lane lane;
  void *node = NULL;
  NULL_REFUSED(metrale_twin_create(recorder, NULL, "g", false, &other), "graph");
  NULL_REFUSED(metrale_twin_create(recorder, graph, NULL, false, &other), "name");
  NULL_REFUSED(metrale_twin_create(recorder, graph, "g", false, NULL), "twin");
  CHECK(other == NULL);
  NULL_REFUSED(metrale_twin_replay(recorder, NULL, NULL, stream, NULL), "twin");
  REFUSED(metrale_twin_replay(recorder, (metrale_lane *)((char *)&lane + 1), twin, stream, NULL),
          METRALE_STATUS_ARGUMENT, "lane is misaligned");
  const uint64_t before = launches;
  REFUSED(metrale_twin_replay(recorder, NULL, twin, stream, (uint32_t *)((char *)&state + 1)),
          METRALE_STATUS_ARGUMENT, "result is misaligned");
  CHECK(launches == before);
  NULL_REFUSED(metrale_twin_follow(NULL, NULL, 0, lengthen, NULL, NULL), "twin");
  NULL_REFUSED(metrale_twin_follow(twin, NULL, 1, lengthen, NULL, NULL), "nodes");
  NULL_REFUSED(metrale_twin_follow(twin, &node, 1, NULL, NULL, NULL), "update");
  NULL_REFUSED(metrale_twin_replace(NULL, graph->graph), "twin");
  NULL_REFUSED(metrale_twin_renew(NULL), "twin");
  NULL_REFUSED(metrale_twin_retire(NULL), "twin");
  NULL_REFUSED(metrale_twin_state_of(NULL, &state, NULL), "twin");
  NULL_REFUSED(metrale_twin_state_of(twin, NULL, NULL), "state");
  OK(metrale_twin_free(NULL));
}

int main(void) {
  CUdevice device;
  CUmodule module;
  CUDA(cuInit(0));
  CUDA(cuDeviceGet(&device, 0));
  CUDA(cuDevicePrimaryCtxRetain(&context, device));
  CUDA(cuCtxSetCurrent(context));
  CUDA(cuModuleLoadData(&module, PTX));
  CUDA(cuModuleGetFunction(&attention, module, "attention"));
  CUDA(cuModuleGetFunction(&gemm, module, "gemm"));
  CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

  OK(metrale_telemetry_create(&telemetry));
  OK(metrale_telemetry_configure(telemetry, METRALE_LEVEL_KERNEL, METRALE_SAMPLING_HASHED, 1, 0));
  metrale_config config = {.harvest_explicitly = true, .skip_floor = true};
  metrale_twins twins = {.marks = 1};
  config.twins = &twins;
  REFUSED(metrale_recorder_create(METRALE_ABI_VERSION, NULL, telemetry, &config, &recorder),
          METRALE_STATUS_ARGUMENT, "twins.marks");
  twins = (metrale_twins){.resident = 1, .always = true};
  OK(metrale_recorder_create(METRALE_ABI_VERSION, NULL, telemetry, &config, &recorder));

  CUgraph captured = capture();
  CUgraphExec exec;
  CUDA(cuGraphInstantiateWithFlags(&exec, captured, 0));
  metrale_graph graph = {captured, exec, METRALE_UNKNOWN, launch};
  metrale_twin *twin;
  OK(metrale_twin_create(recorder, &graph, "decode, 8 requests", true, &twin));
  is(twin, METRALE_TWIN_STATE_READY, NULL);
  replay_many(twin);

  CUgraphNode nodes[NODES];
  size_t count = NODES;
  CUDA(cuGraphGetNodes(captured, nodes, &count));
  CHECK(count == NODES);
  int updates = 0;
  duration_ns[1] = 3000;
  duration_ns[2] = 9000;
  OK(metrale_twin_follow(twin, (void **)&nodes[1], 2, lengthen, &updates, NULL));
  CHECK(updates == 2);
  is(twin, METRALE_TWIN_STATE_READY, NULL);
  replay_many(twin);

  duration_ns[0] = 1000;
  CUgraph newer = capture();
  CUgraphExecUpdateResultInfo info;
  CUDA(cuGraphExecUpdate(exec, newer, &info));
  OK(metrale_twin_replace(twin, newer));
  OK(metrale_twin_renew(twin));
  is(twin, METRALE_TWIN_STATE_READY, NULL);
  // Its upload is to be seen done.
  OK(metrale_recorder_harvest(recorder, NULL));
  replay_many(twin);
  CHECK(launches == replays);

  // All that there may be are in use; the driver's own function launches this one.
  metrale_twin *second;
  graph.launch = NULL;
  OK(metrale_twin_create(recorder, &graph, "another", false, &second));
  is(second, METRALE_TWIN_STATE_REFUSED, "in use");
  replay(second, METRALE_STATUS_OK);
  OK(metrale_twin_free(second));
  // Nobody records, and the graph is launched.
  OK(metrale_twin_create(NULL, &graph, "unmeasured", false, &second));
  is(second, METRALE_TWIN_STATE_REFUSED, "no driver call");
  OK(metrale_twin_replay(NULL, NULL, second, stream, NULL));
  OK(metrale_twin_replay(recorder, NULL, second, stream, NULL));
  OK(metrale_twin_free(second));
  refuse(&graph, twin);

  // What the driver refuses is the application's to know, and what the twin does not take.
  uint32_t result;
  CUgraphNode wrong[] = {nodes[0], NULL};
  REFUSED(metrale_twin_follow(twin, (void **)wrong, 2, lengthen, &updates, &result),
          METRALE_STATUS_CALL, "update answered");
  CHECK(result != 0);
  is(twin, METRALE_TWIN_STATE_STALE, NULL);
  OK(metrale_twin_retire(twin));
  is(twin, METRALE_TWIN_STATE_RETIRED, "the application retired it");
  refusal = 2;
  replay(twin, METRALE_STATUS_CALL);
  SAYS("cuGraphLaunch answered 2");

  OK(metrale_recorder_close(recorder));
  OK(metrale_twin_free(twin));
  CUDA(cuGraphExecDestroy(exec));
  CUDA(cuGraphDestroy(captured));
  CUDA(cuGraphDestroy(newer));
  CUDA(cuStreamDestroy(stream));
  CUDA(cuModuleUnload(module));
  CUDA(cuDevicePrimaryCtxRelease(device));
  CHECK(metrale_panics() == 0);

  char *json;
  OK(metrale_telemetry_snapshot(telemetry, &json));
  printf("attention %" PRIu64 "\ngemm %" PRIu64 "\n%s\n", attention_ns, gemm_ns, json);
  metrale_string_free(json);
  return 0;
}
