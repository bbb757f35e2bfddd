"""The metrics of a server, in the text format that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bucket bounds of the response time histogram, in seconds."""


class Meters:
    """The counters of one server; `gauges` are evaluated when the metrics are requested."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()
        """Number of answered requests by route and status."""
        self.dropped: Counter[str] = Counter()
        """Number of connections closed without an answer, by reason."""
        self.gauges: dict[str, tuple[str, Callable[[], int]]] = {}
        """Help text and value function by name; a name ending in `_total` is a counter."""
        self._seconds = [0] * (len(BOUNDS) + 1)
        self._total = 0.0

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self.answers[route, status] += 1
        self._seconds[bisect_left(BOUNDS, seconds)] += 1
        self._total += seconds

    def text(self) -> str:
        """Return all metrics in the Prometheus text format."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield "# HELP waggle_requests_total Answered requests."
        yield "# TYPE waggle_requests_total counter"
        for (route, status), count in sorted(self.answers.items()):
            yield f'waggle_requests_total{{route="{route}",status="{status}"}} {count}'
        yield "# HELP waggle_dropped_total Connections closed without an answer."
        yield "# TYPE waggle_dropped_total counter"
        for reason, count in sorted(self.dropped.items()):
            yield f'waggle_dropped_total{{reason="{reason}"}} {count}'
        for name, (about, value) in self.gauges.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            yield from (f"# HELP waggle_{name} {about}", f"# TYPE waggle_{name} {kind}")
            yield f"waggle_{name} {value()}"
        yield "# HELP waggle_request_seconds Time from the headers of a request to its answer."
        yield "# TYPE waggle_request_seconds histogram"
        below = 0
        for bound, count in zip((*BOUNDS, "+Inf"), self._seconds, strict=True):
            below += count
            yield f'waggle_request_seconds_bucket{{le="{bound}"}} {below}'
        yield from (f"waggle_request_seconds_sum {self._total:.6f}",
                    f"waggle_request_seconds_count {below}")  # fmt: skip
