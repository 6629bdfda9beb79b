# SPDX-License-Identifier: MIT OR Apache-2.0
"""What NVIDIA's bindings ask of the simulated driver beside streams and graphs: each call
that a server's start-up makes is there, and answers as a driver does."""

import ctypes

import figures
import metrale
import pytest
from application import PTX, ok
from cuda.bindings import driver

VARIABLES = PTX + b"""
.visible .global .align 4 .b8 table[64];
.visible .const .u32 limit = 7;
"""


def status(result):
    return int(result[0])


def test_what_names_nothing(application):
    assert status(driver.cuCtxDestroy(0)) == 1
    assert status(driver.cuStreamDestroy(0)) == 400
    # On a stream that there is, it is the event that is wrong.
    assert status(driver.cuEventRecord(0, application.stream)) == 400
    ok(driver.cuCtxSetCurrent(0))
    assert status(driver.cuEventRecord(0, 0)) == 3
    ok(driver.cuCtxSetCurrent(application.context))


def test_attributes_of_a_function(application):
    attribute = driver.CUfunction_attribute
    gemm, shared = application.gemm, attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    registers = attribute.CU_FUNC_ATTRIBUTE_NUM_REGS
    assert ok(driver.cuFuncGetAttribute(registers, gemm)) > 0
    assert ok(driver.cuFuncGetAttribute(attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, gemm)) == 1024
    driver.cuFuncSetAttribute(gemm, shared, 100_000)
    assert ok(driver.cuFuncGetAttribute(shared, gemm)) == 100_000
    assert status(driver.cuFuncSetAttribute(gemm, shared, 1 << 20)) == 1
    assert status(driver.cuFuncSetAttribute(gemm, registers, 16)) == 1
    assert status(driver.cuFuncGetAttribute(shared, 0)) == 400
    assert ok(driver.cuFuncGetAttribute(shared, gemm)) == 100_000


def test_a_host_function_runs_in_a_stream_and_in_a_graph(application):
    told = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(told.append)
    function = driver.CUhostFn(ctypes.cast(callback, ctypes.c_void_p).value)
    assert status(driver.cuLaunchHostFunc(application.stream, function, 7)) == 0
    application.synchronize()
    assert told == [7]
    graph = application.capture(
        lambda: driver.cuLaunchHostFunc(application.stream, function, 8)
    )
    assert told == [7]
    # Once: what the bindings keep for the function is freed by its first run.
    application.replay(graph)
    application.synchronize()
    assert told == [7, 8]


def test_memory_of_both_sides(application):
    attach = driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL
    managed = ok(driver.cuMemAllocManaged(64, attach))
    on_host = (ctypes.c_uint8 * 64).from_address(int(managed))
    assert bytes(on_host) == bytes(64)
    ok(driver.cuMemsetD8(managed, 9, 32))
    assert bytes(on_host) == bytes([9]) * 32 + bytes(32)
    on_host[63] = 5
    back = (ctypes.c_uint8 * 64)()
    ok(driver.cuMemcpyDtoH(ctypes.addressof(back), managed, 64))
    assert bytes(back) == bytes(on_host)
    ok(driver.cuMemFree(managed))
    assert status(driver.cuMemFree(managed)) == 1
    assert status(driver.cuMemAllocManaged(0, attach)) == 1
    assert status(driver.cuMemAllocManaged(64, 0)) == 1
    pinned = ok(driver.cuMemAllocHost(64))
    ctypes.memset(int(pinned), 3, 64)
    ok(driver.cuMemFreeHost(pinned))


def test_variables_of_a_module(application):
    module = ok(driver.cuModuleLoadData(VARIABLES))
    address, size = ok(driver.cuModuleGetGlobal(module, b"table"))
    assert size == 64
    ok(driver.cuMemsetD8(address, 4, 64))
    assert status(driver.cuMemsetD8(address, 4, 65)) == 1
    assert ok(driver.cuModuleGetGlobal(module, b"limit"))[1] == 4
    assert status(driver.cuModuleGetGlobal(module, b"attention")) == 500
    ok(driver.cuModuleUnload(module))
    assert status(driver.cuMemsetD8(address, 4, 64)) == 1


def test_kernels_of_a_library(application, install):
    library = ok(driver.cuLibraryLoadData(PTX, None, None, 0, None, None, 0))
    gemm = ok(driver.cuLibraryGetKernel(library, b"gemm"))
    assert ok(driver.cuLibraryGetKernelCount(library)) == 2
    assert [int(one) for one in ok(driver.cuLibraryEnumerateKernels(2, library))][1] == int(gemm)
    assert status(driver.cuLibraryGetKernel(library, b"absent")) == 500
    assert ok(driver.cuKernelGetName(gemm)) == b"gemm"
    function = ok(driver.cuKernelGetFunction(gemm))
    module = ok(driver.cuLibraryGetModule(library))
    assert int(ok(driver.cuModuleGetFunction(module, b"gemm"))) == int(function)

    settled = install(every=1)
    metrale.name(gemm, "a library's gemm")
    with metrale.step(), metrale.lane("decode", application.stream):
        with metrale.launch(gemm):
            application.launch(gemm, 5_000)
        with metrale.launch(function):
            application.launch(function, 1_000)
    taken = settled()
    assert figures.lane(taken, "decode") == (1, 6_000)
    assert figures.rows(taken) == {
        ("kernel", "a library's gemm"): (1, 5_000),
        ("kernel", "gemm"): (1, 1_000),
    }

    # One that has no name is not asked for one: its handle is no function's.
    with metrale.step(), metrale.lane("decode", application.stream):
        attention = ok(driver.cuLibraryGetKernel(library, b"attention"))
        with metrale.launch(attention):
            application.launch(attention, 2_000)
    assert figures.rows(settled())["kernel", None] == (1, 2_000)

    ok(driver.cuLibraryUnload(library))
    assert status(driver.cuLibraryUnload(library)) == 400
    with pytest.raises(AssertionError):
        application.launch(gemm, 1_000)
