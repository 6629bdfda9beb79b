# SPDX-License-Identifier: MIT OR Apache-2.0
"""Always-on GPU time for LLM serving.

    metrale.install()  # once in each worker, with its CUDA context current

    with metrale.step(prompt_tokens=512, decode_tokens=8):
        with metrale.lane("decode", torch.cuda.current_stream()):
            model(batch)

    metrale.snapshot()

Steps, lanes, launches, graphs and regions are context managers, and decorators of functions.
Where there is no GPU, `install` warns once and nothing is measured.
"""

import os

from metrale._metrale import (
    Lane,
    Span,
    Step,
    Twin,
    _after_fork,
    close,
    drain,
    driver,
    forget,
    graph,
    harvest,
    install,
    lane,
    launch,
    merge,
    name,
    prometheus_text,
    region,
    set_level,
    snapshot,
    step,
    twin,
)
from metrale._prometheus import collector, start_http_server

__all__ = [
    "Lane",
    "Span",
    "Step",
    "Twin",
    "close",
    "collector",
    "drain",
    "driver",
    "forget",
    "graph",
    "harvest",
    "install",
    "lane",
    "launch",
    "merge",
    "name",
    "prometheus_text",
    "region",
    "set_level",
    "snapshot",
    "start_http_server",
    "step",
    "twin",
]

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
