# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is measured is what the application launched."""

import figures
import metrale


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
