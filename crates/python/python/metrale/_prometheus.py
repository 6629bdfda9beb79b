# SPDX-License-Identifier: MIT OR Apache-2.0
"""What was measured, for Prometheus: for an application's registry, or as a server."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from metrale._metrale import prometheus_text

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

Snapshots = Callable[[], Iterable[dict[str, Any]]]

_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Collector:
    """A collector for a registry of `prometheus_client`."""

    def __init__(self, snapshots: Snapshots | None):
        self._snapshots = snapshots

    def describe(self) -> Iterable[Metric]:
        """Nothing: series come with what is measured, so a registry cannot know them."""
        return []

    def collect(self) -> Iterable[Metric]:
        """The metrics now."""
        from prometheus_client.parser import text_string_to_metric_families

        return text_string_to_metric_families(self.page())

    def page(self) -> str:
        """The metrics now, as text."""
        return prometheus_text(*self._snapshots()) if self._snapshots else prometheus_text()


def collector(snapshots: Snapshots | None = None) -> Collector:
    """A collector for `prometheus_client`: `REGISTRY.register(metrale.collector())`.

    `snapshots` returns those of other processes at each scrape, in the place of this one's;
    each must have labels of its own.
    """
    return Collector(snapshots)


class Server(http.server.ThreadingHTTPServer):
    """Serves `/metrics`: `server_port` is its port, `shutdown()` ends it."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], metrics: Collector):
        super().__init__(address, _Handler)
        self.metrics = metrics


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if self.path.partition("?")[0] not in ("/", "/metrics"):
            self.send_error(404)
            return
        page = self.server.metrics.page().encode()
        self.send_response(200)
        self.send_header("Content-Type", _TEXT)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: Any) -> None:
        pass  # It runs in somebody else's process.


def start_http_server(
    port: int, addr: str = "127.0.0.1", snapshots: Snapshots | None = None
) -> Server:
    """Serves `/metrics` from a thread of its own. `snapshots` is as for `collector`."""
    server = Server((addr, port), Collector(snapshots))
    threading.Thread(target=server.serve_forever, name="metrale-http", daemon=True).start()
    return server
