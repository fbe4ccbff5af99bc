"""The kernel's log."""

from talos.system.kmsg import format_message, parse_record


def test_kmsg_record() -> None:
    message = parse_record(b"30,1234,5000001,-,caller=T1;[talos] caf\\xc3\\xa9\n SUBSYSTEM=x\n")
    assert message is not None
    assert (message.facility, message.priority, message.sequence) == ("daemon", "info", 1234)
    assert message.text == "[talos] café"
    assert format_message(message, 0) == "daemon:    info: [1970-01-01T00:00:05.000001Z]: [talos] café"
    assert parse_record(b"garbage") is None
    assert parse_record(b"") is None
