# SPDX-License-Identifier: MIT OR Apache-2.0
"""Worker processes, forked and spawned, and machines that have no GPU."""

import json
import multiprocessing
import os
import pathlib
import subprocess
import sys

import figures
import metrale
import pytest
import worker

HERE = pathlib.Path(__file__).parent


def python(script, **environment):
    """What a script printed, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(HERE), **environment}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def serve_in_workers(start):
    context = multiprocessing.get_context(start)
    # A worker serves once, so that no other takes its rank too.
    with context.Pool(2, maxtasksperchild=1) as pool:
        return pool.starmap(worker.serve, [(0, 20), (1, 30)], chunksize=1)


FORKED = """
import json, test_processes
print(json.dumps(test_processes.serve_in_workers("fork")))
"""


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_workers_are_merged(start):
    # A process that has a context cannot fork workers that make one.
    spawned = start == "spawn"
    taken = serve_in_workers(start) if spawned else json.loads(python(FORKED)[0])
    assert [one["labels"]["rank"] for one in taken] == ["0", "1"]
    total = 20 * 1_000 + 30 * 1_001
    merged = metrale.merge(*taken)
    assert (merged["sources"], merged["steps"]) == (2, 50)
    assert figures.lane(merged, "decode") == (50, total)
    assert figures.rows(merged) == {("kernel", "gemm"): (50, total)}
    page = metrale.prometheus_text(*taken)
    for rank, steps in enumerate([20, 30]):
        (line,) = (line for line in page.splitlines() if line.startswith("metrale_steps_total") and f'rank="{rank}"' in line)
        assert line.endswith(f" {steps}")


CHILD = """
import os, threading, figures, metrale
from application import Application

application = Application()
assert metrale.install(every=1)

def work(times):
    for _ in range(times):
        with metrale.step(), metrale.lane("decode", application.stream):
            with metrale.launch(application.gemm):
                application.launch(application.gemm, 1_000)

work(10)
serving = threading.Thread(target=lambda: work(800))
serving.start()
held = metrale.step()
held.__enter__()
lane = held.lane("prefill", application.stream)
lane.__enter__()
for _ in range(50):
    child = os.fork()
    if child == 0:
        # Whatever was open is the parent's; nothing calls the driver, or hangs.
        assert metrale.driver() is None
        assert held.number is None and not lane.is_armed
        lane.__exit__(None, None, None)
        held.__exit__(None, None, None)
        with metrale.step() as step, metrale.lane("decode", application.stream):
            with metrale.launch(application.gemm):
                assert step.number is None
        assert metrale.drain() == 0
        assert metrale.snapshot()["steps"] == 0
        metrale.close()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
lane.__exit__(None, None, None)
held.__exit__(None, None, None)
serving.join()
application.synchronize()
metrale.drain()
taken = metrale.snapshot()
assert taken["steps"] == 811, taken["steps"]
assert figures.lane(taken, "decode") == (810, 810_000)
print("done")
"""


def test_a_forked_child_is_quiet():
    assert python(CHILD)[0] == "done\n"


NO_GPU = """
import metrale

@metrale.step()
@metrale.lane("decode", 0)
def forward():
    with metrale.launch(0x5000), metrale.graph("g"), metrale.region("r"):
        return 5

assert forward() == 5
for _ in range(3):
    assert not metrale.install()
assert forward() == 5
assert metrale.harvest() == metrale.drain() == 0
taken = metrale.snapshot()
assert taken["steps"] == 0 and taken["kernels"] == [], taken
assert metrale.merge(taken, taken)["sources"] == 2
assert 'metrale_export_snapshots{state="no_gpu"} 1' in metrale.prometheus_text()
metrale.close()
"""


def test_without_a_driver_it_measures_nothing_and_says_so_once():
    _, said = python(NO_GPU, LD_LIBRARY_PATH="")
    assert said.count("UserWarning: GPU time is not measured: no CUDA driver") == 1, said


@pytest.mark.parametrize(
    "before, text",
    [
        ("", "NOT_INITIALIZED"),
        ("from cuda.bindings import driver; driver.cuInit(0)", "INVALID_CONTEXT"),
    ],
)
def test_without_a_context_it_says_what_is_missing(before, text):
    _, said = python(f"{before}\nimport metrale; assert not metrale.install()")
    assert "context" in said and text in said, said


END = """
import sys, metrale
from application import Application

application = Application()
assert metrale.install(every=1)
step = metrale.step()
step.__enter__()
lane = metrale.lane("decode", application.stream)
lane.__enter__()
metrale.start_http_server(0)
sys.exit(3)
"""


def test_the_end_of_the_process_is_quiet():
    with pytest.raises(AssertionError):
        python(END)
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run([sys.executable, "-c", END], env=environment, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b"")


def test_options_that_cannot_be_are_said(application):
    for options, text in [
        ({"every": 0}, "every"),
        ({"level": "loud"}, "loud"),
        ({"lanes": ["decode"]}, "two lanes"),
        ({"harvest_interval": -1.0}, "negative"),
    ]:
        with pytest.raises(ValueError, match=text):
            metrale.install(application.context, **options)
    with pytest.raises(TypeError):
        metrale.install("0")
    assert metrale.driver() is None


def test_one_recorder_to_a_context(application, install):
    settled = install()
    with metrale.lane("decode", application.stream):
        application.launch(application.gemm, 1_000)
    assert metrale.install() and metrale.install(application.context)
    assert figures.lane(settled(), "decode") == (1, 1_000)


def test_snapshots_are_plain_data(application, install):
    settled = install(every=1, labels={"rank": "3"})
    with metrale.lane("decode", application.stream):
        with metrale.launch(application.gemm):
            application.launch(application.gemm, 1_000)
    taken = settled()
    assert taken["labels"]["rank"] == "3" and taken["labels"]["gpu"].startswith("GPU-")
    read = json.loads(json.dumps(taken))
    assert read == taken
    assert metrale.merge(read) == taken
    for wrong in ({"version": 99}, {"steps": "many"}, 7):
        with pytest.raises(ValueError):
            metrale.merge(taken, wrong)
    with pytest.raises(ValueError):
        metrale.merge()
