"""From a summary to the rows of a screen: a pure function, plain ASCII, no escape sequences."""

import enum
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from talos.machined.screen.summary import Summary
from talos.system.terminal import remove_escapes

LABEL = 12
"""Columns of the labels on the left."""
MIN_WIDTH = 40
LOG_ROWS = 4
"""Rows that the log has at least; what is above it is cut."""
_UNPRINTABLE = re.compile(r"[^ -~]")


class Style(enum.Enum):
    """The style of a row."""

    PLAIN = "plain"
    HEADER = "header"
    GOOD = "good"
    BAD = "bad"
    FAINT = "faint"


@dataclass(frozen=True, slots=True)
class ScreenRow:
    """One row, never wider than the screen."""

    text: str
    style: Style = Style.PLAIN


def render(summary: Summary, width: int, height: int) -> list[ScreenRow]:
    """Exactly ``height`` rows: the header, the machine, the newest log lines."""
    width = max(width, MIN_WIDTH)
    top = [_header(summary, width), ScreenRow(""), *_machine_rows(summary, width - 1)]
    if summary.maintenance:
        top += [ScreenRow(""), *_maintenance(summary, width - 1)]
    top = [*top[: max(height - LOG_ROWS - 2, 1)], ScreenRow(""), ScreenRow("-" * (width - 1), Style.FAINT)]
    rows = [*top, *_log(summary.log, width - 1, height - len(top))][:height]
    return rows + [ScreenRow("")] * (height - len(rows))


def sanitize(text: str) -> str:
    """Untrusted text without control characters and escape sequences."""
    return _UNPRINTABLE.sub("?", remove_escapes(text.replace("\t", " ")))


def _header(summary: Summary, width: int) -> ScreenRow:
    left = f" {sanitize(summary.hostname) or '(no name yet)'}   Talos {sanitize(summary.version)}"
    right = f"{summary.stage}, {'ready' if summary.ready else 'not ready'} "
    return ScreenRow(f"{left:<{width - len(right)}}"[: width - len(right)] + right, Style.HEADER)


def _machine_rows(summary: Summary, width: int) -> list[ScreenRow]:
    rows: list[ScreenRow] = []
    for text in summary.missing:
        rows += _labelled("Waiting for" if not rows else "", [sanitize(text)], width, Style.BAD)
    memory = f"{summary.memory_used} of {summary.memory_total} MiB used"
    load = f"processors {summary.cpu_percent} % used, " if summary.cpu_percent >= 0 else ""
    bad = any(not service.is_good for service in summary.services)
    for label, values, style in (
        ("Type", [summary.machine_type], Style.PLAIN),
        ("Machine", [f"UUID {summary.uuid}" if summary.uuid else "", _serial(summary)], Style.PLAIN),
        ("Secure Boot", [_secure_boot(summary)], Style.PLAIN),
        ("Addresses", summary.addresses, Style.PLAIN),
        ("Gateway", summary.gateways, Style.PLAIN),
        ("Resolvers", summary.resolvers, Style.PLAIN),
        ("Load", [load + memory if summary.memory_total else ""], Style.PLAIN),
        ("Services", [_service(service.id, service.state) for service in summary.services],
         Style.BAD if bad else Style.GOOD),
    ):  # fmt: skip
        rows += _labelled(label, [sanitize(value) for value in values if value], width, style)
    return rows


def _serial(summary: Summary) -> str:
    return f"serial {summary.serial}" if summary.serial else ""


def _secure_boot(summary: Summary) -> str:
    if not summary.secure_boot:
        return "off"
    return f"on, key {summary.signing_key}" if summary.signing_key else "on"


def _service(id: str, state: str) -> str:
    return f"{id} {state}".strip()


def _labelled(label: str, values: Sequence[str], width: int, style: Style) -> list[ScreenRow]:
    """Values side by side, wrapped between them; an unknown value is shown as such."""
    text = ", ".join(value.replace(" ", "\0") for value in values) or "-"
    lines = textwrap.wrap(text, width - LABEL, break_on_hyphens=False) or [""]
    return [
        ScreenRow(f"{label if not number else '':<{LABEL}}{line.replace('\0', ' ')}"[:width], style)
        for number, line in enumerate(lines)
    ]


def _maintenance(summary: Summary, width: int) -> list[ScreenRow]:
    address = summary.addresses[0].partition("/")[0] if summary.addresses else "ADDRESS"
    pin = ["--cert-fingerprint", f"'{summary.fingerprint}'"] if summary.fingerprint else []
    argv = ["talosctl", "apply-config", "--insecure", "--nodes", address, *pin, "--file", "CONFIG.yaml"]
    rows = [ScreenRow("This machine has no config and waits for one. From your workstation:"[:width])]
    command, indent = "", "  "
    for argument in argv:  # wrapped as a shell would take it
        if command and len(indent) + len(command) + len(argument) + 3 > width:
            rows.append(ScreenRow(f"{indent}{command} \\"))
            command, indent = "", "    "
        command += f" {argument}" if command else argument
    rows.append(ScreenRow(f"{indent}{command}"[:width]))
    if summary.fingerprint:
        rows += [
            ScreenRow(""),
            ScreenRow(f"Fingerprint of its certificate: {sanitize(summary.fingerprint)}"[:width]),
        ]
    return rows


def _log(lines: Iterable[str], width: int, room: int) -> list[ScreenRow]:
    """The newest lines that fit, long ones wrapped."""
    rows: list[ScreenRow] = []
    for line in lines:
        text = sanitize(line)
        rows += [ScreenRow(text[start : start + width]) for start in range(0, len(text) or 1, width)]
    return rows[-room:] if room > 0 else []
