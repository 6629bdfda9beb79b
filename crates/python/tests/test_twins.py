# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernels inside graphs, of an application that captures with `cuda.bindings`."""

import ctypes
import threading

import metrale
import pytest
from application import ok
from cuda.bindings import driver

TWINS = {"always": True}


class Decode:
    """A graph of three kernels; what one launch of it runs is known here."""

    def __init__(self, application):
        self.application, self.ns = application, [7_000, 2_000, 5_000]
        self.graph = self.capture()
        self.exec = ok(driver.cuGraphInstantiate(self.graph, 0))

    def capture(self):
        application, stream = self.application, self.application.stream
        ok(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode(1)))
        for kernel, ns in zip((application.attention, application.gemm, application.attention), self.ns):
            application.launch(kernel, ns)
        return ok(driver.cuStreamEndCapture(stream))

    def sums(self):
        return {"attention": self.ns[0] + self.ns[2], "gemm": self.ns[1]}


@pytest.fixture
def decode(application):
    return Decode(application)


def serve(application, twin, times):
    for _ in range(times):
        with metrale.step(), metrale.lane("decode", application.stream):
            twin.replay(application.stream)
        application.synchronize()
        metrale.drain()


def inside(taken):
    """name -> (samples, GPU time) of the kernels inside the one graph that had a twin."""
    (graph,) = taken["graphs"]
    assert graph["name"] == "decode, 8 requests"
    return {row["name"]: (row["samples"], row["sampled_ns"]) for row in graph["rows"]}


def replays(taken):
    (recorder,) = taken["recorders"]
    return recorder["replays"]


def test_kernels_inside_a_graph_have_rows(application, install, decode):
    settled = install(every=1, twins=TWINS)
    twin = metrale.twin(decode.graph, decode.exec, "decode, 8 requests")
    assert (twin.state, twin.why) == ("ready", None)
    serve(application, twin, 11)
    # The first is the plain graph's: nobody knows yet where it was launched before.
    sums = decode.sums()
    expected = {"attention": (20, 10 * sums["attention"]), "gemm": (10, 10 * sums["gemm"])}
    taken = settled()
    assert inside(taken) == expected
    assert replays(taken)["launched"] == 10
    assert taken["host"]["graph_launches"] == 11
    # What a task does by its lane.
    with metrale.step(), metrale.lane("decode", application.stream) as lane:
        with metrale.step(), metrale.lane("admit", application.stream):
            twin.replay(application.stream, lane)
    taken = settled()
    assert replays(taken)["launched"] == 11
    twin.retire()
    assert (twin.state, twin.why) == ("retired", "the application retired it")
    serve(application, twin, 1)
    assert settled()["host"]["graph_launches"] == 13


def test_updates_are_the_twins_too(application, install, decode):
    settled = install(every=1, twins=TWINS)
    twin = metrale.twin(decode.graph, decode.exec, "decode, 8 requests", updated=True)
    serve(application, twin, 2)
    before = decode.sums()["gemm"]
    nodes, _count = ok(driver.cuGraphGetNodes(decode.graph, 3))

    def lengthen(exec, node):
        params = ok(driver.cuGraphKernelNodeGetParams(nodes[1]))
        params.kernelParams = ((9_000,), (ctypes.c_uint64,))
        ok(driver.cuGraphExecKernelNodeSetParams(exec, node, params))
        return exec

    assert twin.follow(lengthen, nodes[1]) == int(decode.exec)
    decode.ns[1] = 9_000
    serve(application, twin, 1)
    assert inside(settled())["gemm"] == (2, before + 9_000)

    decode.ns[1] = 4_000
    newer = decode.capture()
    ok(driver.cuGraphExecUpdate(decode.exec, newer))
    twin.replace(newer)
    twin.renew()
    metrale.drain()
    serve(application, twin, 1)
    assert inside(settled())["gemm"] == (3, before + 13_000)

    with pytest.raises(ZeroDivisionError):
        twin.follow(lambda exec, node: 1 // 0, nodes[1])
    assert twin.state == "stale"


def test_a_graph_is_launched_where_nothing_is_measured(application, simulator, decode):
    launches = simulator.calls("cuGraphLaunch")
    twin = metrale.twin(decode.graph, decode.exec, "decode, 8 requests")
    assert twin.state == "refused" and "no driver call" in twin.why
    serve(application, twin, 2)
    assert simulator.calls("cuGraphLaunch") == launches + 2


def test_what_the_driver_refuses_raises(application, install, decode):
    install(every=1, twins=TWINS)
    gone = metrale.twin(decode.graph, driver.CUgraphExec(0), "decode, 8 requests")
    with metrale.step(), metrale.lane("decode", application.stream):
        with pytest.raises(RuntimeError, match="cuGraphLaunch answered"):
            gone.replay(application.stream)
    with pytest.raises(ValueError, match="twins have no option \"mark\""):
        metrale.install(twins={"mark": 32})
    with pytest.raises(TypeError, match="a handle is"):
        metrale.twin("decode", decode.exec, "decode, 8 requests")


def test_a_twin_stays_on_its_thread(application, install, decode):
    install(every=1, twins=TWINS)
    twin = metrale.twin(decode.graph, decode.exec, "decode, 8 requests")
    raised = []

    def elsewhere():
        for call in (lambda: twin.replay(application.stream), lambda: twin.state, twin.retire):
            with pytest.raises(RuntimeError, match="thread that made it") as error:
                call()
            raised.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(raised) == 3 and twin.state == "ready"
