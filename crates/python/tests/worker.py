# SPDX-License-Identifier: MIT OR Apache-2.0
"""A worker process of a server: its own context, its own recorder."""

import metrale
from application import Application


def serve(rank, steps):
    """The snapshot of so many steps of 1 µs and `rank`."""
    application = Application()
    assert metrale.install(every=1, labels={"rank": str(rank)})
    for _ in range(steps):
        with metrale.step(), metrale.lane("decode", application.stream):
            with metrale.launch(application.gemm):
                application.launch(application.gemm, 1_000 + rank)
    application.synchronize()
    assert metrale.drain() == 0
    return metrale.snapshot()
