"""How many calls of each method there were, how they ended, and how long they took.

Bounded: methods that the API does not have are counted as one.
"""

from bisect import bisect_left
from collections import Counter
from itertools import accumulate

from talos.api.methods import StreamKind, methods, stream_kind
from talos.api.metrics import metrics_pb2

BOUNDS = (0.005, 0.025, 0.1, 1.0, 10.0, float("inf"))
"""Seconds: the upper ends of the classes of latency."""
OTHER = "other"
"""The method of calls whose method the API does not have."""


class CallCounts:
    """The counts since the daemon started."""

    def __init__(self) -> None:
        self._results: dict[str, Counter[int]] = {}
        self._slots: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def add(self, method: str, code: int, seconds: float) -> None:
        """A call has ended."""
        if method not in methods():
            method = OTHER
        self._results.setdefault(method, Counter())[code] += 1
        if method != OTHER and stream_kind(method) is StreamKind.UNARY:
            self._slots.setdefault(method, [0] * len(BOUNDS))[bisect_left(BOUNDS, seconds)] += 1
            self._seconds[method] = self._seconds.get(method, 0.0) + seconds

    def encode(self) -> bytes:
        """A part of a ``ReadResponse``: what is appended to another part's bytes is added to it."""
        return metrics_pb2.ReadResponse(
            methods=[self._make(method) for method in self._results]
        ).SerializeToString()

    def _make(self, method: str) -> metrics_pb2.Method:
        slots = self._slots.get(method, ())
        return metrics_pb2.Method(
            method=method,
            results=[
                metrics_pb2.Result(code=code, count=count) for code, count in self._results[method].items()
            ],
            buckets=[
                metrics_pb2.Bucket(seconds=bound, count=count)
                for bound, count in zip(BOUNDS, accumulate(slots), strict=False)
            ],
            seconds=self._seconds.get(method, 0.0),
        )
