"""Numbers as people read them."""

import datetime

from google.protobuf.timestamp_pb2 import Timestamp

_SIZES = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def format_size(count: int) -> str:
    """A byte count with a decimal unit and at most two digits: ``1.2 MB``, ``13 GB``."""
    if count < 10:
        return f"{count} B"
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_SIZES) - 1:
        value, unit = value / 1000, unit + 1
    rounded = int(value * 10 + 0.5) / 10
    return f"{rounded:.1f} {_SIZES[unit]}" if rounded < 10 and unit else f"{rounded:.0f} {_SIZES[unit]}"


def format_age(moment: Timestamp, now: datetime.datetime | None = None) -> str:
    """How long ago something was, in whole seconds: ``1h2m3s``."""
    from talos.talosctl.cli.values import format_duration

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
