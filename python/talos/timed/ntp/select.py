"""What several servers agree on: those that differ are left out, the others are averaged."""

from collections.abc import Sequence
from dataclasses import dataclass

from talos.system.clock import Leap
from talos.timed.ntp.packet import Sample

MIN_DISTANCE = 0.01
"""Seconds: good servers disagree by a little more than they claim (as MINDISP and jitter in RFC 5905)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How far the local clock is behind, in seconds; ``error`` is the greatest error of that."""

    offset: float
    error: float
    leap: Leap
    servers: tuple[str, ...]
    """Those that agree, the nearest first."""
    rejected: tuple[str, ...] = ()
    """Those that disagree with the majority."""


def select(samples: Sequence[Sample]) -> Estimate | None:
    """Combine one sample per server; None when there are none, or no majority of them agrees.

    Each sample is an interval in which the true offset lies if its server is right. The servers in the
    largest set of intervals with a common point are right, if they are more than half (the intersection
    of RFC 5905, section 11.2.1). A single server can't be compared with another and is accepted.
    """
    if not samples:
        return None
    sets = [
        [other for other in samples if _low(other) <= edge <= _high(other)] for edge in map(_low, samples)
    ]
    agreeing = max(sets, key=len)
    if len(agreeing) * 2 <= len(samples):
        return None
    agreeing.sort(key=_reach)
    weights = [1 / _reach(sample) for sample in agreeing]
    offset = sum(w * sample.offset for w, sample in zip(weights, agreeing, strict=True)) / sum(weights)
    leaps = [sample.leap for sample in agreeing]
    return Estimate(
        offset=offset,
        error=_reach(agreeing[0]) + abs(agreeing[0].offset - offset),
        leap=next((leap for leap in Leap if leaps.count(leap) * 2 > len(leaps)), Leap.NONE),
        servers=tuple(sample.server for sample in agreeing),
        rejected=tuple(sample.server for sample in samples if sample not in agreeing),
    )


def _reach(sample: Sample) -> float:
    return max(sample.distance, MIN_DISTANCE)


def _low(sample: Sample) -> float:
    return sample.offset - _reach(sample)


def _high(sample: Sample) -> float:
    return sample.offset + _reach(sample)
