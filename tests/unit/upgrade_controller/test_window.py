"""Maintenance windows: over midnight, over the week's end, over a change of the clocks; and mistakes."""

from datetime import datetime

import pytest

from talos.system.errors import UserError
from talos.upgrade_controller.window import DAYS, make_window


@pytest.mark.parametrize(
    ("days", "hours", "zone", "when", "is_open"),
    [
        ("sat sun", "01:00-05:00", "UTC", "2026-11-21T01:00+00:00", True),  # a Saturday
        ("sat sun", "01:00-05:00", "UTC", "2026-11-21T00:59+00:00", False),
        ("sat sun", "01:00-05:00", "UTC", "2026-11-21T05:00+00:00", False),
        ("sat sun", "01:00-05:00", "UTC", "2026-11-23T02:00+00:00", False),
        # It opens on Sunday and closes on Monday.
        ("sun", "22:00-04:00", "UTC", "2026-11-22T23:00+00:00", True),
        ("sun", "22:00-04:00", "UTC", "2026-11-23T03:59+00:00", True),
        ("sun", "22:00-04:00", "UTC", "2026-11-23T04:00+00:00", False),
        ("sun", "22:00-04:00", "UTC", "2026-11-22T03:00+00:00", False),
        ("mon", "00:00-24:00", "UTC", "2026-11-23T23:59+00:00", True),
        ("mon", "00:00-24:00", "UTC", "2026-11-24T00:00+00:00", False),
        # 22:30 in New York is the next day in UTC.
        ("fri", "22:00-23:00", "America/New_York", "2026-11-21T03:30+00:00", True),
        # The night in which 02:00 to 03:00 comes twice.
        ("sun", "02:00-03:00", "Europe/Berlin", "2026-10-25T00:30+00:00", True),
        ("sun", "02:00-03:00", "Europe/Berlin", "2026-10-25T01:30+00:00", True),
        ("sun", "02:00-03:00", "Europe/Berlin", "2026-10-25T02:30+00:00", False),
    ],
)
def test_when_it_is_open(days: str, hours: str, zone: str, when: str, is_open: bool) -> None:
    start, _, end = hours.partition("-")
    window = make_window(days.split(), start, end, zone, where="windows[0]")
    assert window.is_open(datetime.fromisoformat(when)) is is_open


@pytest.mark.parametrize(
    ("start", "end", "zone", "text"),
    [
        ("1:00", "05:00", "UTC", "windows[0].from: '1:00' is no time of the day"),
        ("01:00", "25:00", "UTC", "windows[0].to: '25:00' is no time of the day"),
        ("05:00", "05:00", "UTC", "05:00 to 05:00 is no time at all"),
        ("01:00", "05:00", "Europe/Berlln", "'Europe/Berlln' is no known time zone"),
        ("01:00", "05:00", "../../etc/passwd", "is no known time zone"),
        ("01:00", "05:00", "", "is no known time zone"),
    ],
)
def test_mistakes(start: str, end: str, zone: str, text: str) -> None:
    with pytest.raises(UserError) as caught:
        make_window(DAYS, start, end, zone, where="windows[0]")
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
