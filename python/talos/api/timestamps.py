"""Timestamps and durations on the wire."""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

_NANOSECONDS = 10**9


def make_timestamp(seconds: float) -> Timestamp:
    """Seconds since the epoch, to the nearest nanosecond; 0, the epoch, stands for never."""
    whole, nanos = divmod(round(seconds * _NANOSECONDS), _NANOSECONDS)
    return Timestamp(seconds=whole, nanos=nanos)


def make_duration(seconds: float) -> Duration:
    """A span of seconds, to the nearest nanosecond."""
    duration = Duration()
    duration.FromNanoseconds(round(seconds * _NANOSECONDS))
    return duration


def read_duration(duration: Duration) -> float:
    """A span in seconds, however long: the type's own conversions refuse what is no difference of dates."""
    return duration.seconds + duration.nanos / _NANOSECONDS
