# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures of a snapshot by name."""


def lane(snapshot, name):
    """Spans of a lane, and their GPU time in nanoseconds."""
    (found,) = (lane for lane in snapshot["lanes"] if lane["lane"] == name)
    return count_and_sum(found["gpu"])


def rows(snapshot):
    """(kind, name) -> (samples, GPU time in nanoseconds)."""
    return {
        (row["kind"], row["name"]): (row["samples"], row["total_ns"]) for row in snapshot["kernels"]
    }


def count_and_sum(histogram):
    buckets = histogram["buckets"]
    return sum(bucket["count"] for bucket in buckets), sum(bucket["sum_ns"] for bucket in buckets)


def ledger(snapshot, ring):
    """What became of the spans of "lane" or "kernel", of all recorders."""
    total = {}
    for recorder in snapshot["recorders"]:
        for key, value in recorder[f"{ring}_ledger"].items():
            total[key] = total.get(key, 0) + value
    return total
