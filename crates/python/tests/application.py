# SPDX-License-Identifier: MIT OR Apache-2.0
"""A program on NVIDIA's own `cuda.bindings`, on the simulated driver.

It keeps its own account of what it launches: what a test expects comes from there, and
never from what was measured.
"""

import ctypes

from cuda.bindings import driver

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry attention(.param .u64 duration_ns) { ret; }
.visible .entry gemm(.param .u64 duration_ns) { ret; }
"""


def ok(result):
    """What a driver function returned, without its status, which must be success."""
    status, *values = result
    assert status == driver.CUresult.CUDA_SUCCESS, status
    return values[0] if len(values) == 1 else values


class Simulator:
    """The driver's `sim_*` functions."""

    def __init__(self):
        self._library = ctypes.CDLL("libcuda.so.1")
        self.version = self._library.sim_version()

        for name in ("sim_call_count", "sim_hung_calls"):
            getattr(self._library, name).restype = ctypes.c_uint64

    def calls(self, name):
        """How often a driver function was called."""
        return self._library.sim_call_count(name.encode())

    def hang(self, name):
        """From now on calls of a driver function do not return."""
        assert self._library.sim_hang(name.encode()) == 0

    def hung(self, name):
        """How many calls of it do not."""
        return self._library.sim_hung_calls(name.encode())

    def release(self, name):
        """Lets them go on."""
        assert self._library.sim_release(name.encode()) == 0


class Application:
    """A context with one stream and two kernels."""

    def __init__(self):
        ok(driver.cuInit(0))
        self.device = ok(driver.cuDeviceGet(0))
        self.context = ok(driver.cuDevicePrimaryCtxRetain(self.device))
        ok(driver.cuCtxSetCurrent(self.context))
        self.stream = self.new_stream()
        self.module = ok(driver.cuModuleLoadData(PTX))
        self.attention = ok(driver.cuModuleGetFunction(self.module, b"attention"))
        self.gemm = ok(driver.cuModuleGetFunction(self.module, b"gemm"))

    def new_stream(self):
        return ok(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))

    def launch(self, kernel, ns, stream=None):
        parameters = ((ns,), (ctypes.c_uint64,))
        stream = self.stream if stream is None else stream
        ok(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, 0))

    def capture(self, work):
        """A graph of what `work` launches."""
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        ok(driver.cuStreamBeginCapture(self.stream, mode))
        work()
        graph = ok(driver.cuStreamEndCapture(self.stream))
        return ok(driver.cuGraphInstantiate(graph, 0))

    def replay(self, graph):
        ok(driver.cuGraphLaunch(graph, self.stream))

    def synchronize(self):
        ok(driver.cuCtxSynchronize())
