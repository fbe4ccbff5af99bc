"""The log of what firmware has measured: what is read of it, and what is refused."""

import struct
from pathlib import Path

import pytest

from talos.system.errors import UserError
from talos.system.tpm.event_log import (
    MAX_EVENTS,
    MAX_LOG,
    MeasuredVariable,
    make_variable_event,
    parse_log,
    parse_variable,
    replay,
)

from . import logs

DB = b"certificates"
MEASURED = logs.measure_secure_boot(DB, b"", b"an entry of db")


def test_the_events_of_a_pcr_give_its_value(tmp_path: Path) -> None:
    boot = logs.measure(tmp_path, MEASURED)
    events = boot.read_events(7)
    assert [(event.pcr, event.kind, event.data) for event in events] == list(MEASURED)
    assert replay(events) == boot.read_value(7) == logs.replay(MEASURED)
    assert boot.read_events(1) == []


def test_a_log_that_does_not_give_the_value_is_refused(tmp_path: Path) -> None:
    boot = logs.measure(tmp_path, MEASURED)
    other = logs.measure_secure_boot(DB, b"revoked", b"an entry of db")
    (tmp_path / "log").write_bytes(logs.pack_log(other))
    reason = f"of PCR 7 give {logs.replay(other).hex()}, the TPM has {logs.replay(MEASURED).hex()}"
    with pytest.raises(UserError, match=reason):
        boot.read_events(7)
    (tmp_path / "values/7").write_text("no number")
    with pytest.raises(UserError, match="the kernel shows no value of PCR 7: 'no number'"):
        boot.read_value(7)
    (tmp_path / "log").unlink()
    with pytest.raises(FileNotFoundError):
        boot.read_events(7)


def test_a_variable_and_its_event() -> None:
    _, kind, data = MEASURED[3]
    variable = parse_variable(data)
    assert variable == MeasuredVariable(vendor=logs.SECURITY.bytes_le, name="db", content=DB)
    event = make_variable_event(7, kind, variable)
    assert (event.data, event) == (data, parse_log(logs.pack_log(MEASURED))[4])
    for damaged in (data[:-1], data + b"\0", data[:20], data[:16] + b"\xff" * 16 + data[32:]):
        with pytest.raises(ValueError, match=r"bytes are no variable's|a variable of"):
            parse_variable(damaged)


HEADER, EVENT = logs.pack_header(), logs.pack_event(7, logs.SEPARATOR, bytes(4))


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (b"", "a field ends after 0 bytes"),
        (EVENT, "it is not in the crypto-agile form|a field ends"),
        (HEADER.replace(b"Event03", b"Event02"), "it is not in the crypto-agile form"),
        (logs.pack_header(((0x4, "sha1"),)), "it has no SHA-256 bank"),
        (logs.pack_header(((0xB, "sha256"),) * 2), "it has no SHA-256 bank"),
        (HEADER.replace(b"\x0b\0\x20\0", b"\x0b\0\x00\0"), "it has no SHA-256 bank"),
        (HEADER.replace(b"\x04\0\x14\0", b"\x04\0\x00\0"), "banks with digests of other sizes"),
        (HEADER.replace(struct.pack("<I", 2) + b"\4\0", struct.pack("<I", 17) + b"\4\0"), "it has 17 banks"),
        (HEADER + EVENT[:-1], "a field ends after"),
        (HEADER + EVENT[:8] + b"\xff\0\0\0" + EVENT[12:], "an event has 255 digests, the log 2 banks"),
        (HEADER + EVENT.replace(b"\4\0\0\0\2\0\0\0\4\0", b"\4\0\0\0\2\0\0\0\5\0"), "of the bank 0x5"),
        (HEADER + logs.pack_event(7, 4, b"", ((0xB, "sha256"),) * 2), "of the bank 0xb"),
        (HEADER + logs.pack_event(7, 4, b"", ((0x4, "sha1"),)), "an event of PCR 7 has no SHA-256"),
        (HEADER + logs.pack_event(24, 4, b""), "an event of PCR 24"),
        (HEADER + EVENT * (MAX_EVENTS + 1), f"more than {MAX_EVENTS} events"),
        (bytes(MAX_LOG + 1), f"more than {MAX_LOG} bytes"),
    ],
)
def test_what_is_no_log(log: bytes, reason: str) -> None:
    with pytest.raises(UserError, match=reason) as caught:
        parse_log(log)
    assert caught.value.where == "the log of measurements"
