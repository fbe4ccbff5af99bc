"""Maintenance windows: days of the week and times of the day, in a time zone."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from talos.system.errors import UserError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Open from ``start`` until ``end`` on ``days``; one that ends before it starts ends the day after.

    ``end`` is 00:00 for midnight. Days are those on which it opens. Times are local: when the clocks change
    within it, it is an hour shorter or longer.
    """

    days: frozenset[int]
    start: time
    end: time
    zone: ZoneInfo

    def is_open(self, now: datetime) -> bool:
        """Whether it is open at an instant."""
        local = now.astimezone(self.zone)
        today, clock = local.weekday(), local.time()
        if self.start < self.end:
            return today in self.days and self.start <= clock < self.end
        yesterday = (local - timedelta(days=1)).weekday()
        return (today in self.days and clock >= self.start) or (yesterday in self.days and clock < self.end)


def make_window(days: Sequence[str], start: str, end: str, zone: str, *, where: str) -> Window:
    """A window of texts; UserError."""
    try:
        found = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        hint = "write it like Europe/Berlin; the names are those of the machine's tzdata"
        raise UserError(f"{zone!r} is no known time zone", where=f"{where}.timeZone", hint=hint) from None
    opens, closes = _parse_time(start, f"{where}.from"), _parse_time(end, f"{where}.to")
    if opens == closes and (start, end) != ("00:00", "24:00"):
        hint = "from 00:00 to 24:00 is a whole day"
        raise UserError(f"{start} to {end} is no time at all", where=where, hint=hint)
    if not days:
        raise UserError("is empty", where=f"{where}.days")
    return Window(days=frozenset(map(DAYS.index, days)), start=opens, end=closes, zone=found)


def _parse_time(text: str, where: str) -> time:
    if not _TIME.fullmatch(text):
        raise UserError(
            f"{text!r} is no time of the day", where=where, hint='write it like "22:30", with quotes'
        )
    hour, minute = map(int, text.split(":"))
    return time(hour % 24, minute)
