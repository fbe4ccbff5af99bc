"""Points in time for the wire."""

from google.protobuf.timestamp_pb2 import Timestamp

_NANOSECONDS = 10**9


def make_timestamp(seconds: float) -> Timestamp:
    """Seconds since the epoch as a Timestamp; 0 is the epoch, as good as never."""
    whole, nanos = divmod(round(seconds * _NANOSECONDS), _NANOSECONDS)
    return Timestamp(seconds=whole, nanos=nanos)


def format_duration(seconds: float) -> str:
    """A duration as Go writes it, ``1h0m0s``, ``1m30s``, ``0.5s``."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{rest:.9f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text
