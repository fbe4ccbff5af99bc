"""The kernel's log, /dev/kmsg: records of the form ``priority,sequence,microseconds,flags;text``."""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from talos.system.proc.cmdline import HIDDEN, hide_secrets

DEVICE = "/dev/kmsg"
RECORD_SIZE = 8192
"""Bytes that the kernel's longest record takes, in linux/printk.h."""
LINE_SIZE = 976
"""Bytes of a line that we write: LOG_LINE_MAX less room for the kernel's own prefix."""

CMDLINE = "ommand line: "
"""In the two lines of a boot with what the kernel was started with: arch/x86/kernel/setup.c, init/main.c."""
MIN_CUT = LINE_SIZE - 64
"""Bytes of such a line that the kernel may have cut, less the longest prefix."""

FACILITIES = (
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news",
    "uucp", "cron", "authpriv", "local0", "local1", "local2", "local3", "local4",
)  # fmt: skip
PRIORITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMessage:
    """One record. ``seconds`` since the kernel's start."""

    priority: str
    facility: str
    sequence: int
    seconds: float
    text: str


def parse_record(record: bytes) -> KernelMessage | None:
    """A record; None when it is not one."""
    head, found, rest = record.partition(b";")
    fields = head.split(b",")
    try:
        number, sequence, microseconds = (int(field) for field in fields[:3])
    except ValueError:
        return None
    if not found:
        return None
    text = rest.split(b"\n", 1)[0]  # lines after the first are key-value pairs for udev
    facility = number >> 3
    shown = unescape(text).decode(errors="replace")
    return KernelMessage(
        priority=PRIORITIES[number & 7],
        facility=FACILITIES[facility] if facility < len(FACILITIES) else str(facility),
        sequence=sequence,
        seconds=microseconds / 1e6,
        text=hide_cmdline(shown) if CMDLINE in shown else shown,
    )


def hide_cmdline(text: str) -> str:
    """The kernel's line with its command line, without secrets: everybody who may read the log sees it.

    The end of a line that was cut may be a secret that is not recognized.
    """
    if len(text.encode()) >= MIN_CUT:
        text = f"{text.rpartition(' ')[0]} {HIDDEN}"
    return hide_secrets(text)


def unescape(text: bytes) -> bytes:
    r"""The kernel writes bytes that can't be printed as ``\xNN``."""
    parts = text.split(b"\\x")
    whole = [parts[0]]
    for part in parts[1:]:
        try:
            whole.append(bytes.fromhex(part[:2].decode()) + part[2:])
        except ValueError:
            whole.append(b"\\x" + part)
    return b"".join(whole)


def format_message(message: KernelMessage, booted: float) -> str:
    """As ``dmesg`` of the API shows it; ``booted`` is in seconds since the epoch."""
    moment = datetime.fromtimestamp(booted + message.seconds, UTC)
    stamp = moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return f"{message.facility}: {message.priority:>7}: [{stamp}]: {message.text}"


class KmsgReader:
    """Reads records from the oldest, or from now on. Never blocks."""

    def __init__(self, *, from_now: bool = False, device: str = DEVICE) -> None:
        self.fd = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self.fd, 0, os.SEEK_END if from_now else os.SEEK_SET)

    def close(self) -> None:
        """Close the device."""
        os.close(self.fd)

    def read(self) -> Iterator[KernelMessage]:
        """The records that are there and were not read yet."""
        while True:
            try:
                record = os.read(self.fd, RECORD_SIZE)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.EPIPE:  # the ring has overtaken us; the next read goes on
                    continue
                raise
            if not record:
                return
            message = parse_record(record)
            if message is not None:
                yield message
