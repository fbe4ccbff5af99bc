"""A log that is read again and again has every line once."""

from talos.talosctl.kubernetes.runner_log import LogReader

DAY = "2026-11-22T17:04:"


def test_lines_of_the_last_second_come_once() -> None:
    reader = LogReader("/log?container=one")
    assert reader.take(f"{DAY}41.9Z a\n{DAY}42.1Z b\n") == ["a", "b"]
    # The last second's line is in the next reply, too; the last line is not whole.
    assert reader.take(f"{DAY}42.1Z b\n{DAY}42.5Z c\n{DAY}42.7Z d") == ["c"]
    assert reader.take(f"{DAY}42.1Z b\n{DAY}42.5Z c\n{DAY}42.7Z d\n{DAY}43Z \n") == ["d", ""]
    assert reader.take(f"{DAY}43Z \n") == []
    assert reader.take("") == []
    assert reader.take(f"{DAY}43Z \n{DAY}44.2Z e f\n") == ["e f"]
