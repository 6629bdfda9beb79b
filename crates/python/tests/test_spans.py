# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is measured is what the application launched."""

import asyncio
import threading

import figures
import metrale
import pytest
from cuda.bindings import driver


def test_sums_are_the_scripts(application, install):
    settled = install(every=1)
    for step in range(10):
        with metrale.step(prompt_tokens=512, decode_tokens=8, requests=3):
            with metrale.lane("prefill", application.stream):
                with metrale.launch(application.attention):
                    application.launch(application.attention, 30_000 + step)
                with metrale.launch(application.gemm):
                    application.launch(application.gemm, 5_000)
            with metrale.lane("decode", application.stream):
                with metrale.launch(application.gemm):
                    application.launch(application.gemm, 1_000)
    taken = settled()
    attention = 10 * 30_000 + 45
    assert (taken["steps"], taken["armed_steps"]) == (10, 10)
    assert figures.lane(taken, "prefill") == (10, attention + 10 * 5_000)
    assert figures.lane(taken, "decode") == (10, 10 * 1_000)
    assert figures.lane(taken, "admit") == (0, 0)
    assert figures.rows(taken) == {
        ("kernel", "attention"): (10, attention),
        ("kernel", "gemm"): (20, 10 * 6_000),
    }
    assert taken["host"]["launches"] == 30
    assert figures.count_and_sum(taken["host"]["step_wall"])[0] == 10
    (slowest, *_) = taken["slowest_steps"]
    assert slowest["shape"] == {"prompt_tokens": 512, "decode_tokens": 8, "requests": 3}


def test_a_graph_is_a_row_and_a_region_encloses(application, install):
    settled = install(every=1)

    def layers():
        application.launch(application.attention, 7_000)
        application.launch(application.gemm, 2_000)

    graph = application.capture(layers)
    for _ in range(4):
        with metrale.step(), metrale.lane("decode", application.stream):
            with metrale.graph("decode, 8 requests"):
                application.replay(graph)
            with metrale.region("sampling"):
                application.launch(application.gemm, 300)
                with metrale.launch(application.gemm):
                    application.launch(application.gemm, 200)
    taken = settled()
    assert figures.lane(taken, "decode") == (4, 4 * 9_500)
    assert figures.rows(taken) == {
        ("graph", "decode, 8 requests"): (4, 4 * 9_000),
        ("region", "sampling"): (4, 4 * 500),
        ("kernel", "gemm"): (4, 4 * 200),
    }
    assert (taken["host"]["launches"], taken["host"]["graph_launches"]) == (4, 4)


def test_a_capture_is_left_alone_and_told(application, install):
    settled = install(every=1)

    def layers():
        with metrale.step(), metrale.lane("decode", application.stream):
            with metrale.launch(application.gemm):
                application.launch(application.gemm, 2_000)

    graph = application.capture(layers)
    application.replay(graph)
    taken = settled()
    assert figures.lane(taken, "decode") == (0, 0)
    assert figures.ledger(taken, "lane")["refused"] == 1
    assert figures.ledger(taken, "kernel")["refused"] == 1


def test_one_step_in_n_has_launches(application, install):
    settled = install(every=8)
    armed = 0
    for _ in range(64):
        with metrale.step() as step, metrale.lane("decode", application.stream) as lane:
            assert lane.is_armed == step.is_armed
            armed += step.is_armed
            with metrale.launch(application.gemm), metrale.region("whole"):
                application.launch(application.gemm, 1_000)
    taken = settled()
    assert armed == taken["armed_steps"] == 8
    assert figures.lane(taken, "decode") == (64, 64_000)
    assert figures.rows(taken)["kernel", "gemm"] == (8, 8_000)
    assert taken["host"]["launches"] == 64


def test_one_span_in_n_is_timed_where_samples_are_spread(application, install):
    settled = install(every=8, sampling="spread")
    for _ in range(64):
        with metrale.step() as step, metrale.lane("decode", application.stream):
            assert not step.is_armed
            with metrale.launch(application.gemm):
                application.launch(application.gemm, 1_000)
            with metrale.region("sampling"):
                application.launch(application.gemm, 300)
    taken = settled()
    rows = figures.rows(taken)
    samples, total = rows["region", "sampling"]
    assert samples > 0 and total == samples * 300
    assert samples + rows["kernel", "gemm"][0] == 128 // 8
    assert (taken["armed_steps"], taken["host"]["launches"]) == (0, 64)
    with pytest.raises(ValueError, match="loud"):
        metrale.install(sampling="loud")


def test_levels(application, install):
    settled = install(every=1, level="basic")
    for level in ("basic", "off", "kernel"):
        metrale.set_level(level)
        with metrale.step() as step, metrale.lane("decode", application.stream):
            assert (step.number is None) == (level == "off")
            with metrale.launch(application.gemm):
                application.launch(application.gemm, 1_000)
    taken = settled()
    assert (taken["steps"], taken["host"]["launches"]) == (2, 2)
    assert figures.lane(taken, "decode") == (1, 1_000)
    with pytest.raises(ValueError, match="loud"):
        metrale.set_level("loud")


def test_a_launch_that_raises_is_not_timed(application, install):
    settled = install(every=1)
    with metrale.step(), metrale.lane("decode", application.stream):
        with pytest.raises(KeyError), metrale.launch(application.gemm):
            raise KeyError
    taken = settled()
    assert figures.rows(taken) == {}
    assert figures.ledger(taken, "kernel")["cancelled"] == 1
    assert figures.lane(taken, "decode")[0] == 1


class TorchStream:
    def __init__(self, handle):
        self.cuda_stream = handle


class CudaStream:
    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return 0, self.handle


def test_every_kind_of_stream(application, install):
    settled = install()
    handle = int(application.stream)
    kinds = [
        handle,
        application.stream,
        driver.CUstream(handle),
        TorchStream(handle),
        CudaStream(handle),
        lambda: TorchStream(handle),
    ]
    for stream in kinds:
        with metrale.step(), metrale.lane("decode", stream):
            application.launch(application.gemm, 1_000)
    # The legacy default stream, as torch gives it.
    with metrale.step(), metrale.lane("admit", TorchStream(0)):
        application.launch(application.gemm, 500, stream=driver.CUstream(0))
    taken = settled()
    assert figures.lane(taken, "decode") == (len(kinds), len(kinds) * 1_000)
    assert figures.lane(taken, "admit") == (1, 500)


@pytest.mark.parametrize("stream", ["0", None, [], 1 << 64, -1])
def test_what_is_no_stream_raises_with_a_recorder_and_without(application, install, stream):
    for prepare in (metrale.close, install):
        prepare()
        with pytest.raises((TypeError, OverflowError)):
            metrale.lane("decode", stream).__enter__()


def test_a_launch_on_another_stream(application, install):
    settled = install(every=1)
    side = application.new_stream()
    with metrale.step(), metrale.lane("decode", application.stream):
        with metrale.launch(application.gemm, side):
            application.launch(application.gemm, 4_000, stream=side)
    taken = settled()
    assert figures.rows(taken) == {("kernel", "gemm"): (1, 4_000)}
    assert figures.lane(taken, "decode") == (1, 0)


def test_lanes_of_ones_own(application, install):
    settled = install(lanes=["draft", "verify"])
    for name in ("draft", "verify", "verify"):
        with metrale.step(), metrale.lane(name, application.stream):
            application.launch(application.gemm, 1_000)
    with pytest.warns(UserWarning, match='no lane "drafts".*draft, verify'):
        with metrale.step(), metrale.lane("drafts", application.stream):
            application.launch(application.gemm, 1_000)
    with metrale.step(), metrale.lane("other", application.stream):
        pass  # Said once.
    taken = settled()
    assert figures.lane(taken, "draft") == (1, 1_000)
    assert figures.lane(taken, "verify") == (2, 2_000)
    assert figures.ledger(taken, "lane")["refused"] == 2


def test_a_lane_without_a_step_is_a_step(application, install):
    settled = install()
    for _ in range(3):
        with metrale.lane("decode", application.stream):
            application.launch(application.gemm, 1_000)
    taken = settled()
    assert taken["steps"] == 3
    assert figures.lane(taken, "decode") == (3, 3_000)


def test_decorators(application, install):
    settled = install(every=1)

    @metrale.launch(application.gemm)
    def gemm(ns, *, times):
        """Launches."""
        for _ in range(times):
            application.launch(application.gemm, ns)
        return "done"

    @metrale.step(requests=2)
    @metrale.lane("decode", lambda: application.stream)
    @metrale.region("all")
    def forward(depth):
        assert gemm(1_000, times=2) == "done"
        if depth > 0:
            forward(depth - 1)

    forward(0)
    assert (gemm.__name__, gemm.__doc__) == ("gemm", "Launches.")
    taken = settled()
    assert figures.lane(taken, "decode") == (1, 2_000)
    assert figures.rows(taken) == {
        ("region", "all"): (1, 2_000),
        ("kernel", "gemm"): (1, 2_000),
    }
    forward(1)  # A step in a step: each call has spans of its own.
    assert settled()["steps"] == 3

    for kind in (metrale.step(), metrale.lane("decode", 0), metrale.launch(1)):
        with pytest.raises(TypeError, match="with statement"):

            @kind
            async def later():
                pass


def test_an_object_is_open_once(application, install):
    settled = install()
    step, lane = metrale.step(), metrale.lane("decode", application.stream)
    for _ in range(2):
        with step, lane:
            for again in (step, lane):
                with pytest.raises(RuntimeError, match="open already"):
                    again.__enter__()
            application.launch(application.gemm, 1_000)
    assert figures.lane(settled(), "decode") == (2, 2_000)


def test_tasks_take_turns_in_steps_of_their_own(application, install):
    settled = install(every=1)

    async def task(name, turns):
        with metrale.step(decode_tokens=turns) as step:
            with step.lane(name, application.stream) as lane:
                for _ in range(turns):
                    with lane.launch(application.gemm):
                        application.launch(application.gemm, 1_000)
                    await asyncio.sleep(0)

    async def all_tasks():
        await asyncio.gather(task("decode", 3), task("prefill", 5), task("decode", 2))

    asyncio.run(all_tasks())
    # What is left of them on this thread is nothing.
    with metrale.step() as step, metrale.lane("admit", application.stream):
        assert step.number == 3
    taken = settled()
    assert taken["steps"] == 4
    assert figures.lane(taken, "decode")[0] == 2
    assert figures.rows(taken) == {("kernel", "gemm"): (10, 10_000)}


def test_threads_have_steps_of_their_own(application, install):
    settled = install()
    streams = [application.new_stream() for _ in range(4)]

    def serve(stream):
        driver.cuCtxSetCurrent(application.context)
        for _ in range(100):
            with metrale.step(), metrale.lane("decode", stream):
                application.launch(application.gemm, 1_000, stream)

    threads = [threading.Thread(target=serve, args=[stream]) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = settled()
    assert taken["steps"] == 400
    assert figures.lane(taken, "decode") == (400, 400_000)


def run_in_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_thread_may_end_in_what_another_one_ends(application, install):
    settled = install(every=1)
    step, lane = metrale.step(), metrale.lane("decode", application.stream)

    def begin():
        driver.cuCtxSetCurrent(application.context)
        step.__enter__()
        lane.__enter__()

    run_in_a_thread(begin)
    # Its step is of no other thread, this one's or a new one's.
    for work in (lambda run: run(), run_in_a_thread):
        work(lambda: metrale.lane("admit", application.stream).__enter__())
    assert metrale.snapshot()["steps"] == 3
    with lane.launch(application.gemm):
        application.launch(application.gemm, 1_000)
    lane.__exit__(None, None, None)
    step.__exit__(None, None, None)
    taken = settled()
    assert figures.lane(taken, "decode") == (1, 1_000)
    assert figures.rows(taken) == {("kernel", "gemm"): (1, 1_000)}
    assert ended_steps(taken) == 3


def test_a_thread_is_in_no_step_that_another_one_ended(application, install):
    settled = install()
    with metrale.step():
        outer = metrale.step()
        outer.__enter__()
        run_in_a_thread(lambda: outer.__exit__(None, None, None))
        with metrale.lane("decode", application.stream):
            pass
    assert settled()["steps"] == 3


@pytest.mark.parametrize("kind", ["lane", "launch"])
def test_of_two_threads_one_enters(application, install, simulator, kind):
    settled = install(every=1)
    refused = []

    def enter():
        driver.cuCtxSetCurrent(application.context)
        try:
            one.__enter__()
        except RuntimeError as error:
            refused.append(str(error))
            one.__exit__(None, None, None)  # Not its to end.

    with metrale.step(), metrale.lane("decode", application.stream) as lane:
        one = metrale.lane("admit", application.stream) if kind == "lane" else lane.launch(application.gemm)
        threads = [threading.Thread(target=enter) for _ in range(2)]
        simulator.hang("cuEventRecord")
        for thread in threads:
            thread.start()
        # The first waits in its record; the second is refused, and does not come so far.
        while simulator.hung("cuEventRecord") + len(refused) < 2:
            pass
        simulator.release("cuEventRecord")
        for thread in threads:
            thread.join()
        one.__exit__(None, None, None)
    assert len(refused) == 1 and "open already" in refused[0]
    taken = settled()
    assert taken["steps"] == (2 if kind == "lane" else 1)
    spans = figures.ledger(taken, kind.replace("launch", "kernel"))
    assert spans["begun"] == spans["landed"] == (2 if kind == "lane" else 1)


def ended_steps(taken):
    return figures.count_and_sum(taken["host"]["step_wall"])[0]


def test_the_end_is_the_end_whoever_has_the_objects(application, install):
    settled = install(every=1)
    with metrale.step() as step:
        with step.lane("decode", application.stream) as lane:
            span = lane.launch(application.gemm)
            with span:
                application.launch(application.gemm, 1_000)
        assert figures.lane(settled(), "decode") == (1, 1_000)
    assert ended_steps(settled()) == 1
    with span:  # Its lane is over, and this thread is in none.
        application.launch(application.gemm, 2_000)
    with step.lane("decode", application.stream):  # A step of its own.
        application.launch(application.gemm, 3_000)
    taken = settled()
    assert taken["steps"] == ended_steps(taken) == 2
    assert figures.lane(taken, "decode") == (2, 4_000)
    assert figures.rows(taken) == {("kernel", "gemm"): (1, 1_000)}


def test_what_nobody_ends_is_over_when_it_goes(application, install):
    settled = install(every=1)
    step = metrale.step()
    step.__enter__()
    lane = metrale.lane("decode", application.stream)
    lane.__enter__()
    application.launch(application.gemm, 1_000)
    del lane, step
    assert ended_steps(settled()) == 1
    with metrale.lane("decode", application.stream):
        pass
    taken = settled()
    assert taken["steps"] == 2
    assert figures.lane(taken, "decode") == (2, 1_000)


def test_a_record_that_waits_does_not_keep_python(application, install, simulator):
    """A host callback in Python can run while a record waits for room in a queue."""
    settled = install()
    simulator.hang("cuEventRecord")

    def serve():
        driver.cuCtxSetCurrent(application.context)
        with metrale.step(), metrale.lane("decode", application.stream):
            pass

    thread = threading.Thread(target=serve)
    thread.start()
    # This very loop would not run.
    while simulator.hung("cuEventRecord") == 0:
        pass
    simulator.release("cuEventRecord")
    thread.join()
    assert figures.lane(settled(), "decode")[0] == 1


def test_figures_that_make_no_sense_kill_nothing(application, install):
    settled = install()
    with metrale.step(prompt_tokens=-1, decode_tokens=1 << 40) as step:
        with metrale.lane("decode", application.stream):
            application.launch(application.gemm, 1_000)
        step.shape(prompt_tokens=-(1 << 62), decode_tokens=1 << 62, requests=1)
    (slowest,) = settled()["slowest_steps"]
    largest = (1 << 32) - 1
    shape = slowest["shape"]
    assert shape["prompt_tokens"] == 0 and 1 << 16 <= shape["decode_tokens"] <= largest


def test_names(application, install):
    settled = install(every=1)
    metrale.name(application.gemm, "gemm of layer 0")
    with metrale.step(), metrale.lane("decode", application.stream):
        with metrale.launch(application.gemm):
            application.launch(application.gemm, 1_000)
    taken = settled()
    metrale.forget(application.gemm)
    assert figures.rows(taken) == {("kernel", "gemm of layer 0"): (1, 1_000)}


def test_nothing_is_made_or_awaited_while_serving(application, install, simulator):
    settled = install(every=2)
    calls = "cuEventCreate", "cuEventDestroy_v2", "cuStreamCreate", "cuStreamSynchronize"
    waits = "cuCtxSynchronize", "cuEventSynchronize", "cuInit", "cuStreamDestroy_v2"
    before = [simulator.calls(name) for name in calls + waits]
    for _ in range(16):
        with metrale.step(), metrale.lane("decode", application.stream):
            with metrale.launch(application.gemm):
                application.launch(application.gemm, 1_000)
    metrale.drain()
    assert [simulator.calls(name) for name in calls + waits] == before
    settled()


def test_explicit_harvest(application, install):
    settled = install(harvest_interval=None)
    with metrale.step(), metrale.lane("decode", application.stream):
        application.launch(application.gemm, 1_000)
    application.synchronize()
    assert metrale.harvest() == 1
    assert figures.lane(settled(), "decode") == (1, 1_000)
