"""Numbers as people read them."""

import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from talos.api.durations import format_duration


def format_age(moment: Timestamp, now: datetime.datetime | None = None) -> str:
    """How long ago something was, in whole seconds: ``1h2m3s``."""
    then = _read(moment)
    if then is None:
        return format_beyond(moment.seconds)
    return format_duration(round(((now or datetime.datetime.now(datetime.UTC)) - then).total_seconds()))


def format_time(moment: Timestamp) -> str:
    """A time as YAML and humans have it, in UTC: ``2026-01-02T03:04:05Z``."""
    then = _read(moment)
    return f"{then:%Y-%m-%dT%H:%M:%SZ}" if then else format_beyond(moment.seconds)


def format_moment(moment: Timestamp) -> str:
    """A time with all its digits, in UTC: ``2026-01-02 03:04:05.678901234 +0000 UTC``."""
    then = _read(moment)
    if then is None:
        return format_beyond(moment.seconds)
    fraction = f".{moment.nanos:09d}".rstrip("0").rstrip(".")
    return f"{then:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"


def format_beyond(seconds: int) -> str:
    """A time of no year that a calendar has, in seconds of the epoch: a node, or a pod, has chosen it."""
    return f"@{seconds}"


def _read(moment: Timestamp) -> datetime.datetime | None:
    try:
        return moment.ToDatetime(datetime.UTC)
    except (OverflowError, ValueError):
        return None
