# SPDX-License-Identifier: MIT OR Apache-2.0
"""What Prometheus would read, by its own Python library."""

import urllib.error
import urllib.request

import metrale
import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families


def work(application, settled, steps):
    for _ in range(steps):
        with metrale.step(), metrale.lane("decode", application.stream):
            with metrale.launch(application.gemm):
                application.launch(application.gemm, 2_000)
    return settled()


def test_a_registry_has_it_beside_its_own(application, install):
    settled = install(every=1, labels={"rank": "1"})
    registry = prometheus_client.CollectorRegistry()
    own = prometheus_client.Counter("app_requests", "Requests.", registry=registry)
    own.inc()
    registry.register(metrale.collector())
    taken = work(application, settled, 5)
    labels = {"gpu": taken["labels"]["gpu"], "rank": "1"}
    lane = {**labels, "lane": "decode"}
    value = registry.get_sample_value
    assert value("app_requests_total") == 1
    assert value("metrale_steps_total", labels) == 5
    assert value("metrale_gpu_lane_seconds_count", lane) == 5
    assert value("metrale_gpu_lane_seconds_sum", lane) == pytest.approx(10e-6)
    # What it writes is read again: nothing was lost on the way.
    page = prometheus_client.generate_latest(registry).decode()
    again = {family.name: family.type for family in text_string_to_metric_families(page)}
    for family in text_string_to_metric_families(metrale.prometheus_text()):
        assert again[family.name] == family.type


def test_the_server_serves_the_page(application, install):
    # Without the recorder's own thread, whose passes are counted.
    settled = install(every=1, harvest_interval=None)
    server = metrale.start_http_server(0)
    try:
        at = f"http://127.0.0.1:{server.server_port}"
        work(application, settled, 5)
        with urllib.request.urlopen(f"{at}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert answer.read().decode() == metrale.prometheus_text()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{at}/other")
    finally:
        server.shutdown()
        server.server_close()


def test_one_server_for_several_processes(application, install):
    taken = work(application, install(every=1), 5)
    workers = []
    for rank in range(3):
        workers.append({**taken, "labels": {**taken["labels"], "rank": str(rank)}})
    server = metrale.start_http_server(0, snapshots=lambda: workers)
    try:
        page = urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}").read().decode()
    finally:
        server.shutdown()
        server.server_close()
    steps = [line for line in page.splitlines() if line.startswith("metrale_steps_total")]
    assert len(steps) == 3 and all(line.endswith(" 5") for line in steps)
