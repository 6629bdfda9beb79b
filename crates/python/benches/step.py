# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an unarmed step with one lane costs from Python, beside the same calls of the C
library by bare ctypes, in one run: `python step.py target/release/libmetrale.so`, with the
package as maturin builds it, the library and the simulated driver in release mode, and that
driver on the library path.

Both look their functions up once. The least of many rounds that take turns, at each level; a
round is short enough for all its lanes to find a slot, and is drained before the next. At
level `kernel` the driver's own five calls are in both.
"""

import ctypes
import pathlib
import sys
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests"))

import metrale
from application import Application

ROUNDS, STEPS = 200, 500
# No step is armed within so many.
EVERY = 1 << 40


class Step(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("number", "state", "began_ns")]


class Lane(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("number", "state", "token", "began_ns", "lane")]


def c_recorder(library):
    telemetry, recorder = ctypes.c_void_p(), ctypes.c_void_p()
    assert library.metrale_telemetry_create(ctypes.byref(telemetry)) == 0
    every = ctypes.c_uint64(EVERY)
    assert library.metrale_telemetry_configure(telemetry, 2, 0, every, ctypes.c_uint64(0)) == 0
    version = library.metrale_abi_version()
    made = library.metrale_recorder_create(version, None, telemetry, None, ctypes.byref(recorder))
    assert made == 0
    return telemetry, recorder


def by_ctypes(library, recorder, stream):
    begin, shape, end = library.metrale_step_begin, library.metrale_step_shape, library.metrale_step_end
    lane_begin, lane_end = library.metrale_lane_begin, library.metrale_lane_end
    step, lane, stream = Step(), Lane(), ctypes.c_void_p(stream)
    step_, lane_ = ctypes.byref(step), ctypes.byref(lane)

    def steps():
        for _ in range(STEPS):
            begin(recorder, step_)
            shape(recorder, step_, 512, 8, 0)
            lane_begin(recorder, step_, 2, stream, lane_)
            lane_end(recorder, lane_, stream)
            end(recorder, step_)

    return steps


def by_package(stream):
    step, lane = metrale.step, metrale.lane

    def steps():
        for _ in range(STEPS):
            with step(prompt_tokens=512, decode_tokens=8):
                with lane("decode", stream):
                    pass

    return steps


def land(library, recorder):
    """Frees all slots: a span that found none would cost less."""
    left = ctypes.c_uint64(1)
    # A busy machine slows polling down.
    for _ in range(100):
        library.metrale_recorder_drain(recorder, ctypes.c_uint64(10**9), ctypes.byref(left))
        if metrale.drain() + left.value == 0:
            return
    sys.exit("spans do not land")


def main():
    application = Application()
    stream = int(application.stream)
    library = ctypes.CDLL(sys.argv[1])
    assert metrale.install(every=EVERY)
    telemetry, recorder = c_recorder(library)
    ways = {"metrale": by_package(stream), "ctypes": by_ctypes(library, recorder, stream)}
    for number, level in enumerate(("off", "basic", "kernel")):
        metrale.set_level(level)
        assert library.metrale_telemetry_set_level(telemetry, number) == 0
        least = dict.fromkeys(ways, float("inf"))
        for _ in range(ROUNDS):
            for way, steps in ways.items():
                began = time.perf_counter_ns()
                steps()
                took = (time.perf_counter_ns() - began) / STEPS
                least[way] = min(least[way], took)
                application.synchronize()
                land(library, recorder)
        ratio = least["metrale"] / least["ctypes"]
        told = ", ".join(f"{way} {ns:.0f} ns" for way, ns in least.items())
        print(f"{level:6} {told}, ratio {ratio:.2f}")


main()
