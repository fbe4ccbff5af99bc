"""The figures of a ping's packets, made by the node, and by a client that ends a call early."""

import math
from collections.abc import Sequence

from talos.api.probe import probe_pb2 as pb
from talos.api.timestamps import make_duration


def make_summary(sent: int, round_trips: Sequence[float]) -> pb.PingSummary:
    """The figures of a call's packets; ``round_trips`` in seconds."""
    if not round_trips:
        return pb.PingSummary(sent=sent)
    average = math.fsum(round_trips) / len(round_trips)
    variance = math.fsum((seconds - average) ** 2 for seconds in round_trips) / len(round_trips)
    return pb.PingSummary(
        sent=sent,
        received=len(round_trips),
        min=make_duration(min(round_trips)),
        avg=make_duration(average),
        max=make_duration(max(round_trips)),
        deviation=make_duration(math.sqrt(variance)),
    )
