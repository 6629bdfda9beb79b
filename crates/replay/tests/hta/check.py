# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads timelines that metrale-replay wrote as HolisticTraceAnalysis does, and
holds its kernel totals, and its busy and idle time of each step's lanes, against
ours.

    check.py TIMELINE REPORT

REPORT is what --json wrote in the same run, of which every armed step is recorded. Each
time is compared twice: to the nanosecond, where HTA does not round, and as it
rounds by default: a start up and an end down, each to a microsecond.
"""

import json
import os
import sys
from collections import Counter

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"

from hta.analyzers.breakdown_analysis import BreakdownAnalysis
from hta.common.trace import Trace

# Of sums of floats of microseconds.
NANOSECOND = 1e-3


def fail(text):
    sys.exit(f"check.py: {text}")


def close(what, theirs_us, ours_ns, within_us):
    """Holds a time of theirs against one of ours."""
    off = theirs_us - ours_ns / 1e3
    if abs(off) > within_us:
        fail(f"{what}: HTA has {theirs_us} us, and we {ours_ns / 1e3} us (within {within_us})")


def read(path, rounds):
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "0" if rounds else "1"
    trace = Trace(trace_files={0: path}, trace_dir=os.path.dirname(path))
    trace.load_traces(
        include_last_profiler_step=True, use_multiprocessing=False, use_memory_profiling=False
    )
    return trace


def kernel_totals(trace, rounds, report):
    most = 1_000_000
    _, kernels = BreakdownAnalysis.get_gpu_kernel_breakdown(
        trace, visualize=False, duration_ratio=1.0, num_kernels=most, include_memory_kernels=True
    )
    theirs = {row["name"]: row["sum (us)"] for _, row in kernels.iterrows() if row["sum (us)"]}
    ours, samples = Counter(), Counter()
    # A timeline has no kernels inside graphs.
    for row in (row for row in report["kernels"] if not row["in_graph"]):
        ours[row["name"]] += row["total_ns"]
        samples[row["name"]] += row["samples"]
    if not rounds and set(theirs) != {name for name in ours if ours[name]}:
        fail(f"kernels: HTA has {sorted(theirs)}, and we {sorted(ours)}")
    for name, total_us in theirs.items():
        within = 2 * samples[name] if rounds else NANOSECOND
        close(name, total_us, ours[name], within)
    return len(theirs)


def lanes(trace, rounds, expected):
    """The lanes of each step by HTA's own sums, over its own idea of the step."""
    events = trace.get_trace(0)
    gpu = events[events["stream"].ne(-1)]
    if gpu["iteration"].lt(0).any():
        fail("HTA finds no step for some kernels")
    for (step, lane), of_lane in expected.items():
        is_own = gpu["iteration"].eq(step) & gpu["correlation"].isin(of_lane["launches"])
        kernels = gpu[is_own].copy()
        if len(kernels) != len(of_lane["launches"]):
            fail(f"{lane} of step {step}: HTA has {len(kernels)} of {of_lane['launches']}")
        idle, span = BreakdownAnalysis._get_idle_time_for_kernels(kernels)
        # What is outside the lane is its kernels' to HTA, which knows no lanes.
        # Rounding moves each end by less than a microsecond.
        within = of_lane["outside_ns"] / 1e3 + (2 * len(kernels) if rounds else NANOSECOND)
        where = f"time of {lane} in step {step}"
        close(f"busy {where}", span - idle, of_lane["busy_ns"], within)
        # It starts with its first kernel to HTA, and ends with its last: what is
        # idle in between is what each kernel was waited for.
        close(f"idle {where}", idle, of_lane["waited_ns"], within)
    return len(expected)


def of_lanes(timeline):
    """Our figures of each lane of each step that had it once, and the steps."""
    with open(timeline, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    steps, spans, expected = set(), Counter(), {}
    for event in events:
        name, args, category = event["name"], event["args"], event.get("cat")
        if name.startswith("ProfilerStep#"):
            step = args["step"]
            steps.add(step)
        elif category == "gpu_user_annotation":
            lane = (step, name.removeprefix("lane[").removesuffix("]"))
            spans[lane] += 1
            expected[lane] = args | {"launches": set()}
        elif category in ("kernel", "gpu_memcpy"):
            expected[step, args["lane"]]["launches"].add(args["correlation"])
    once = {
        lane: figures
        for lane, figures in expected.items()
        # Of two spans HTA would count the time between them.
        if spans[lane] == 1 and figures["launches"]
    }
    return once, steps


def main():
    timeline, report = sys.argv[1:]
    with open(report, encoding="utf-8") as file:
        report = json.load(file)
    expected, recorded = of_lanes(timeline)
    if len(recorded) != report["armed_steps"] or not expected:
        fail(f"{len(recorded)} of {report['armed_steps']} armed steps are in the timelines")
    for rounds in [False, True]:
        trace = read(timeline, rounds)
        kernels = kernel_totals(trace, rounds, report)
        count = lanes(trace, rounds, expected)
        how = "rounded" if rounds else "to the nanosecond"
        print(f"HTA agrees on {kernels} kernels and {count} lanes of {len(recorded)} steps, {how}")


if __name__ == "__main__":
    main()
