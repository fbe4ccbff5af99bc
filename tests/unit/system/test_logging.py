"""Lines that are written once."""

import json

from talos.system.logging import KEYS, Log


def make_log() -> tuple[Log, list[str]]:
    lines: list[str] = []
    return Log(write=lambda line: lines.append(json.loads(line)["msg"])), lines


def test_a_line_is_written_once() -> None:
    log, lines = make_log()
    assert log.once("disk sda is slow")
    assert not log.once("disk sda is slow")
    assert log.once("disk sdb is slow")
    assert lines == ["disk sda is slow", "disk sdb is slow"]


def test_a_key_is_written_again_when_its_line_differs() -> None:
    log, lines = make_log()
    for text in ("eth0: refused", "eth0: refused", "eth0: busy", "eth0: refused"):
        log.once(text, key="eth0")
    assert lines == ["eth0: refused", "eth0: busy", "eth0: refused"]


def test_a_forgotten_key_is_written_again() -> None:
    log, lines = make_log()
    log.once("eth0: refused", key="eth0")
    log.forget("eth0")
    log.forget("eth1")
    log.once("eth0: refused", key="eth0")
    assert len(lines) == 2


def test_memory_is_bounded_and_keeps_what_is_in_use() -> None:
    log, lines = make_log()
    log.once("in use")
    for number in range(2 * KEYS):
        log.once(f"line {number}")
        log.once("in use")
    assert len(lines) == 2 * KEYS + 1
    assert log.once("line 0")


def test_a_line_has_its_level_and_fields() -> None:
    lines: list[str] = []
    Log({"service": "networkd"}, write=lines.append).once("refused", level="error", link="eth0")
    record = json.loads(lines[0])
    assert (record["level"], record["service"], record["link"]) == ("error", "networkd", "eth0")
