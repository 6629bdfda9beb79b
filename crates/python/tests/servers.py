# SPDX-License-Identifier: MIT OR Apache-2.0
"""The call sites that docs/python.md patches, as far as the patches need them: a worker of
vLLM 0.34.0 and a scheduler with a model runner of SGLang 0.5.23, over `Application`.

Every line that a patch adds stands here as it stands there; `test_recipes.py` looks.
"""

import contextlib
import enum
import types

import metrale


def torch_on(application):
    """What the patches use of torch."""
    stream = types.SimpleNamespace(cuda_stream=int(application.stream))
    return types.SimpleNamespace(cuda=types.SimpleNamespace(current_stream=lambda: stream))


torch = None


def compute_iteration_details(scheduler_output):
    prompts, tokens = scheduler_output
    return types.SimpleNamespace(num_ctx_tokens=prompts, num_generation_tokens=tokens)


def use_workspace_lane(lane):
    return contextlib.nullcontext()


class VllmModelRunner:
    """A FULL graph for decoding, eager prefill, a sampler and a speculator."""

    def __init__(self, application):
        self.application = application
        self.cudagraph_manager = self
        self._draft_workspace_lane = 1
        self.graph = None

    def run_fullgraph(self, batch_desc):
        self.application.replay(self.graph)

    def execute_model(self, scheduler_output, intermediate_tensors):
        prompts, tokens = scheduler_output
        if prompts:
            self.application.launch(self.application.attention, 10 * prompts)
        else:
            batch_desc = types.SimpleNamespace(num_tokens=tokens)
            with metrale.graph(f"forward, {batch_desc.num_tokens} tokens"):
                model_output = self.cudagraph_manager.run_fullgraph(batch_desc)
                assert model_output is None

    def sample_tokens(self, grammar_output):
        self.application.launch(self.application.gemm, 700)
        with use_workspace_lane(self._draft_workspace_lane), metrale.region("draft"):
            self.application.launch(self.application.gemm, 900)
        return "output"


class VllmWorker:
    def __init__(self, application, rank):
        self.rank = rank
        self.model_runner = VllmModelRunner(application)

    def compile_or_warm_up_model(self):
        metrale.install(lanes=["sample"], labels={"rank": str(self.rank)})
        self.turn = contextlib.ExitStack()

    def sample_tokens(self, grammar_output):
        with self.turn, metrale.lane("sample", torch.cuda.current_stream()):
            return self.model_runner.sample_tokens(grammar_output)

    def execute_model(self, scheduler_output):
        intermediate_tensors = None
        with contextlib.nullcontext():
            self.turn.close()
            of = compute_iteration_details(scheduler_output)
            tokens = {"prompt_tokens": of.num_ctx_tokens, "decode_tokens": of.num_generation_tokens}
            self.turn.enter_context(metrale.step(**tokens))
            with metrale.lane("prefill" if of.num_ctx_tokens else "decode", torch.cuda.current_stream()):
                output = self.model_runner.execute_model(scheduler_output, intermediate_tensors)
        return output


ForwardMode = enum.IntEnum(
    "ForwardMode",
    "EXTEND DECODE MIXED IDLE TARGET_VERIFY DRAFT_EXTEND_V2 PREBUILT SPLIT_PREFILL DLLM_EXTEND",
)


def graph_pool_replay_scope():
    return contextlib.nullcontext()


class SglangModelRunner:
    def __init__(self, application, *, is_draft_worker=False):
        self.application = application
        self.gpu_id = 0
        self.is_draft_worker = is_draft_worker
        self._graphs = {}

    def initialize(self):
        lanes = [mode.name.lower() for mode in ForwardMode if mode is not ForwardMode.DECODE]
        metrale.install(lanes=[*lanes, "draft"], labels={"rank": str(self.gpu_id)})

    def forward(
        self, forward_batch, pp_proxy_tensors=None, reinit_attn_backend=False, split_forward_count=1
    ):
        with contextlib.nullcontext():
            mode = "draft" if self.is_draft_worker else forward_batch.forward_mode.name.lower()
            with metrale.lane(mode, torch.cuda.current_stream()):
                output = self._forward_raw(
                    forward_batch,
                    pp_proxy_tensors,
                    reinit_attn_backend,
                    split_forward_count,
                )
        return output

    def _forward_raw(self, forward_batch, *rest):
        if forward_batch.forward_mode in self._graphs:
            return self.replay(forward_batch.forward_mode, types.SimpleNamespace(size=8))
        self.application.launch(self.application.attention, forward_batch.ns)

    def replay(self, mode, shape_key):
        with graph_pool_replay_scope(), metrale.graph(f"forward, size {shape_key.size}"):
            self.application.replay(self._graphs[mode])


class SglangScheduler:
    def __init__(self, target, draft):
        self.target, self.draft = target, draft

    @metrale.step()
    def run_batch(self, batch):
        for forward_batch in batch:
            runner = self.draft if forward_batch.by_draft else self.target
            runner.forward(forward_batch)
