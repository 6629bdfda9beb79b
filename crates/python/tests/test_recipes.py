# SPDX-License-Identifier: MIT OR Apache-2.0
"""The recipes of docs/python.md, on stand-ins of the call sites that they patch."""

import pathlib
import types

import figures
import metrale
import pytest
import servers
from servers import ForwardMode

DOCS = pathlib.Path(__file__).parents[3] / "docs"


@pytest.fixture
def settled(application, monkeypatch):
    monkeypatch.setattr(servers, "torch", servers.torch_on(application))

    def settled():
        application.synchronize()
        assert metrale.drain() == 0
        return metrale.snapshot()

    yield settled
    metrale.close()


def test_what_the_patches_add_is_what_runs_here():
    added = [
        line[1:].strip()
        for line in (DOCS / "python.md").read_text().splitlines()
        if line.startswith("+") and not line.startswith("+from ")
    ]
    here = {line.strip() for line in pathlib.Path(servers.__file__).read_text().splitlines()}
    assert len(added) > 20
    assert [line for line in added if line not in here] == []


def test_vllm(application, settled):
    worker = servers.VllmWorker(application, rank=5)
    worker.compile_or_warm_up_model()
    worker.model_runner.graph = application.capture(
        lambda: application.launch(application.gemm, 4_000)
    )
    # The last one is never sampled, as one that failed.
    turns = [(512, 0), (0, 8), (256, 7), (0, 9), (0, 10)]
    for turn in turns:
        worker.execute_model(turn)
        if turn is not turns[-1]:
            assert worker.sample_tokens(None) == "output"
    worker.turn.close()
    taken = settled()
    assert taken["labels"]["rank"] == "5"
    assert taken["steps"] == len(turns)
    assert figures.lane(taken, "prefill") == (2, 10 * (512 + 256))
    assert figures.lane(taken, "decode") == (3, 3 * 4_000)
    assert figures.lane(taken, "sample") == (4, 4 * 1_600)
    assert taken["host"]["graph_launches"] == 3
    shapes = [step["shape"] for step in taken["slowest_steps"]]
    assert sorted((shape["prompt_tokens"], shape["decode_tokens"]) for shape in shapes) == sorted(turns)


def test_sglang(application, settled):
    target = servers.SglangModelRunner(application)
    draft = servers.SglangModelRunner(application, is_draft_worker=True)
    for runner in (target, draft):
        runner.initialize()
    target._graphs[ForwardMode.TARGET_VERIFY] = application.capture(
        lambda: application.launch(application.gemm, 6_000)
    )
    scheduler = servers.SglangScheduler(target, draft)

    def forward(mode, ns=0, *, by_draft=False):
        return types.SimpleNamespace(forward_mode=mode, ns=ns, by_draft=by_draft)

    scheduler.run_batch([forward(ForwardMode.EXTEND, 9_000)])
    for _ in range(4):
        drafting = [forward(ForwardMode.DECODE, 500, by_draft=True)] * 3
        scheduler.run_batch([*drafting, forward(ForwardMode.TARGET_VERIFY)])
    scheduler.run_batch([forward(ForwardMode.DECODE, 2_000)])
    taken = settled()
    assert taken["steps"] == 6
    expected = {"extend": (1, 9_000), "draft": (12, 6_000), "target_verify": (4, 24_000), "decode": (1, 2_000)}
    for lane in taken["lanes"]:
        assert figures.lane(taken, lane["lane"]) == expected.get(lane["lane"], (0, 0)), lane["lane"]
    assert taken["host"]["graph_launches"] == 4
