"""Text of nodes, shown so that it can't control the terminal it goes to.

Names of files, logs of containers and messages of errors are chosen by a node, or by a pod on it. What
controls a terminal (sequences that begin with ESC, carriage returns, the controls of Latin-1, changes of the
writing's direction) becomes what less and kubectl show in its place.
"""

import re

_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_COLORS = re.compile(rb"(\x1b\[[0-9;:]{0,32}m)")
_PRINTABLE = 0x40
"""What a control of ASCII differs by from the character that stands for it behind a caret."""
_LAST_ASCII = 0x7F


def make_visible(text: str) -> str:
    """Text in which nothing but line feeds and tabs is a control."""
    return _CONTROLS.sub(_show, text)


def make_visible_line(line: bytes) -> bytes:
    """A line of a log; colours stay, and a carriage return before its end goes."""
    *parts, last = _COLORS.split(line.removesuffix(b"\r"))
    shown = [
        part if index % 2 else make_visible(part.decode(errors="replace")).encode()
        for index, part in enumerate([*parts, last])
    ]
    return b"".join(shown) + (b"\x1b[m" if parts else b"")


def _show(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"^{chr(code ^ _PRINTABLE)}" if code <= _LAST_ASCII else f"<U+{code:04X}>"
