"""Numbers as people read them."""

import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from talos.api.durations import format_duration


def format_age(moment: Timestamp, now: datetime.datetime | None = None) -> str:
    """How long ago something was, in whole seconds: ``1h2m3s``."""
    then = moment.ToDatetime(datetime.UTC)
    return format_duration(round(((now or datetime.datetime.now(datetime.UTC)) - then).total_seconds()))


def format_time(moment: Timestamp) -> str:
    """A time as YAML and humans have it, in UTC: ``2026-01-02T03:04:05Z``."""
    return moment.ToDatetime(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_moment(moment: Timestamp) -> str:
    """A time with all its digits, in UTC: ``2026-01-02 03:04:05.678901234 +0000 UTC``."""
    text = moment.ToDatetime(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
    fraction = f".{moment.nanos:09d}".rstrip("0").rstrip(".")
    return f"{text}{fraction} +0000 UTC"
