"""Points in time for the wire."""

from google.protobuf.timestamp_pb2 import Timestamp

_NANOSECONDS = 10**9


def make_timestamp(seconds: float) -> Timestamp:
    """Seconds since the epoch as a Timestamp; 0 is the epoch, as good as never."""
    whole, nanos = divmod(round(seconds * _NANOSECONDS), _NANOSECONDS)
    return Timestamp(seconds=whole, nanos=nanos)
