"""Metrics of the service in the Prometheus text format, version 0.0.4.

Labels are routes, methods and status codes, never paths, names or queries.
"""

import threading
from collections import Counter
from collections.abc import Callable

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counters, a histogram of durations per route, and gauges."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()
        self._events: Counter[str] = Counter()
        self.gauges: dict[str, Callable[[], float]] = {}

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a finished request."""
        with self._lock:
            self._requests[route, _known_method(method), status] += 1
            self._seconds[route] += seconds  # type: ignore[assignment]
            counts = self._buckets.setdefault(route, [0] * (len(BUCKETS) + 1))
            counts[next((i for i, edge in enumerate(BUCKETS) if seconds <= edge), len(BUCKETS))] += 1

    def count(self, event: str, n: int = 1) -> None:
        """Count an event other than a request."""
        with self._lock:
            self._events[event] += n

    def text(self) -> str:
        """Return all metrics in the Prometheus text format."""
        with self._lock:
            requests, events, seconds = self._requests.copy(), self._events.copy(), self._seconds.copy()
            buckets = {route: list(counts) for route, counts in self._buckets.items()}
        lines = ["# TYPE lookalike_requests_total counter"]
        for (route, method, status), n in sorted(requests.items()):
            lines.append(f'lookalike_requests_total{{route="{route}",method="{method}",status="{status}"}} {n}')
        lines.append("# TYPE lookalike_request_seconds histogram")
        for route, counts in sorted(buckets.items()):
            total = 0
            for edge, n in zip([*map(str, BUCKETS), "+Inf"], counts, strict=True):
                total += n
                lines.append(f'lookalike_request_seconds_bucket{{route="{route}",le="{edge}"}} {total}')
            lines.append(f'lookalike_request_seconds_sum{{route="{route}"}} {seconds[route]:.6f}')
            lines.append(f'lookalike_request_seconds_count{{route="{route}"}} {total}')
        for name, n in sorted(events.items()):
            lines += [f"# TYPE lookalike_{name}_total counter", f"lookalike_{name}_total {n}"]
        for name, gauge in sorted(self.gauges.items()):
            lines += [f"# TYPE lookalike_{name} gauge", f"lookalike_{name} {gauge():g}"]
        return "\n".join(lines) + "\n"


def _known_method(method: str) -> str:
    """Return a known method, or "other": clients can send any word, and each would create a metric."""
    return method if method in ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS") else "other"
