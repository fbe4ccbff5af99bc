"""The kernel's log."""

import pytest

from talos.system.kmsg import LINE_SIZE, format_message, parse_record


def test_kmsg_record() -> None:
    message = parse_record(b"30,1234,5000001,-,caller=T1;[talos] caf\\xc3\\xa9\n SUBSYSTEM=x\n")
    assert message is not None
    assert (message.facility, message.priority, message.sequence) == ("daemon", "info", 1234)
    assert message.text == "[talos] café"
    assert format_message(message, 0) == "daemon:    info: [1970-01-01T00:00:05.000001Z]: [talos] café"
    assert parse_record(b"garbage") is None
    assert parse_record(b"") is None


@pytest.mark.parametrize("prefix", ["Command line: ", "Kernel command line: "])
def test_secrets_of_the_command_line_are_hidden(prefix: str) -> None:
    """The kernel prints what it was started with, twice, and every reader may see its log."""
    line = f"{prefix}a=b talos.config=https://user:secret@example.org/c talos.config.inline=secret panic=0"
    message = parse_record(f"6,1,1,-;{line}\n".encode())
    assert message is not None
    assert message.text == (f"{prefix}a=b talos.config=https://example.org/c talos.config.inline=*** panic=0")


def test_a_command_line_that_the_kernel_has_cut() -> None:
    line = "Command line: talos.config=https://user:" + "secret" * 200
    message = parse_record(f"6,1,1,-;{line[:LINE_SIZE]}\n".encode())
    assert message is not None
    assert message.text == "Command line: ***"


def test_other_lines_stay_as_they_are() -> None:
    message = parse_record(b"6,1,1,-;fetching https://user@example.org/\n")
    assert message is not None
    assert message.text == "fetching https://user@example.org/"
