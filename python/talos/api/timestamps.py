"""Timestamps on the wire."""

from google.protobuf.timestamp_pb2 import Timestamp

_NANOSECONDS = 10**9


def make_timestamp(seconds: float) -> Timestamp:
    """Seconds since the epoch, to the nearest nanosecond; 0, the epoch, stands for never."""
    whole, nanos = divmod(round(seconds * _NANOSECONDS), _NANOSECONDS)
    return Timestamp(seconds=whole, nanos=nanos)
