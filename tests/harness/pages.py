"""Command lines of talosctl in pages of the documentation, and those of them that only read."""

import re
import shlex
from collections.abc import Iterator, Mapping

from talos.talosctl.cli.parse import parse
from talos.talosctl.tree import ROOT

READ_ONLY = frozenset({
    "cgroups", "containers", "diskfree", "dmesg", "etcd alarm list", "etcd members", "etcd status", "get",
    "health", "image list", "list", "logs", "memory", "mounts", "netstat", "processes", "read", "service",
    "stats", "usage", "version",
})  # fmt: skip
"""Commands that change nothing and have an end; `service` with an action is left out.

`events` has no end, and `time` queries a server outside of the cluster.
"""
MAY_BE_EMPTY = frozenset({"etcd alarm list", "get", "health", "logs"})
"""Those of them that may print nothing to their standard output."""
FOLLOWING = frozenset({"-f", "--follow", "-w", "--watch"})
"""Flags with which the others would have no end."""
_BLOCK = re.compile(r"^(?:```(?:sh)?$.*?^```$|(?: {4}\S.*\n)+)", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^\s*(?:\$ )?(talosctl .*?)(?: +# .*| \|.*| >.*|;.*)?$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"[A-Z]{2,}")


def read_command_lines(text: str) -> Iterator[str]:
    """Every command line of talosctl in a page's code blocks, without comments, pipes and redirections."""
    for block in _BLOCK.findall(text):
        yield from _LINE.findall(block)


def select_command(line: str, values: Mapping[str, str]) -> tuple[str, list[str]] | None:
    """A command by its full name, such as `etcd status`, and its words with values in place of a page's.

    The page's are addresses and placeholders; flags of following are left out. None for a command that may
    change something, and for one that has further placeholders.
    """
    _, *words = shlex.split(line)
    invocation = parse(ROOT, words)
    command = " ".join(invocation.path[1:])
    if command not in READ_ONLY or (command == "service" and len(invocation.args) > 1):
        return None
    if values:
        names = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, values))})(?![\w.])")
        words = [names.sub(lambda found: values[found[0]], word) for word in words]
    words = [word for word in words if word not in FOLLOWING]
    return None if any(map(_PLACEHOLDER.search, words)) else (command, words)
