// SPDX-License-Identifier: MIT OR Apache-2.0
#include <cuda.h>
#include <inttypes.h>
#include <metrale.h>
#include <stdio.h>
#include <stdlib.h>

// An empty kernel; the simulated driver has it take as long as it is told.
static const char PTX[] = ".version 7.0 .target sm_75 .address_size 64\n"
                          ".visible .entry attention(.param .u64 duration_ns) { ret; }";

static void cuda(CUresult result) {
  if (result != CUDA_SUCCESS) {
    fprintf(stderr, "CUDA error %d\n", (int)result);
    exit(1);
  }
}

int main(void) {
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CUmodule module;
  CUfunction attention;
  cuda(cuInit(0));
  cuda(cuDeviceGet(&device, 0));
  cuda(cuDevicePrimaryCtxRetain(&context, device));
  cuda(cuCtxSetCurrent(context));
  cuda(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  cuda(cuModuleLoadData(&module, PTX));
  cuda(cuModuleGetFunction(&attention, module, "attention"));

  // Once, before any graph is captured. A recorder that is NULL measures nothing.
  const metrale_telemetry *telemetry = metrale_telemetry_global();
  metrale_recorder *recorder;
  if (metrale_recorder_create(METRALE_ABI_VERSION, context, telemetry, NULL, &recorder))
    fprintf(stderr, "not timed: %s\n", metrale_last_error());

  for (int token = 0; token < 256; token++) {
    metrale_step step;
    metrale_lane decode;
    uint64_t span;
    metrale_step_begin(recorder, &step);
    metrale_step_shape(recorder, &step, 0, 1, 1);
    metrale_lane_begin(recorder, &step, METRALE_LANE_DECODE, stream, &decode); // on every step
    metrale_launch_begin(recorder, &decode, attention, stream, &span);         // on one in 64
    uint64_t duration_ns = 5000;
    void *arguments[] = {&duration_ns};
    if (cuLaunchKernel(attention, 8, 1, 1, 128, 1, 1, 0, stream, arguments, NULL) == CUDA_SUCCESS)
      metrale_span_end(recorder, span, stream);
    else
      metrale_span_cancel(recorder, span);
    metrale_lane_end(recorder, &decode, stream);
    metrale_step_end(recorder, &step);
  }
  cuda(cuStreamSynchronize(stream)); // yours to do; the recorder never does it
  metrale_recorder_drain(recorder, 60000000000, NULL); // no longer than it takes

  metrale_cursor cursor = {0, 0};
  metrale_step_record record;
  uint64_t steps = 0, decode_ns = 0;
  while (metrale_telemetry_next_record(telemetry, &cursor, &record) == METRALE_STATUS_OK) {
    steps++;
    decode_ns += record.lanes[METRALE_LANE_DECODE].gpu_ns;
  }
  printf("# %" PRIu64 " steps, %" PRIu64 " ns of GPU time in decode\n", steps, decode_ns);

  char *page; // for GET /metrics
  if (metrale_prometheus(&telemetry, 1, &page) == METRALE_STATUS_OK) {
    fputs(page, stdout);
    metrale_string_free(page);
  }

  metrale_recorder_close(recorder); // before the context goes
  cuda(cuModuleUnload(module));
  cuda(cuStreamDestroy(stream));
  cuda(cuDevicePrimaryCtxRelease(device));
  return 0;
}
