"""The tree of control groups of a node, as /sys/fs/cgroup has it in an archive."""

import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

CONTROLLERS = "cgroup.controllers"
"""A file in every group of version 2."""
UNIFIED = "unified"
"""Where version 2 is mounted beside version 1."""
MAX_FILE = 1 << 20
"""Bytes of a file."""
MAX_DEPTH = 64
"""Groups above each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A control group: its files' contents by name, and the groups below by name."""

    name: str
    files: dict[str, str] = field(default_factory=dict[str, str])
    groups: dict[str, "Group"] = field(default_factory=dict[str, "Group"])

    def text(self, file: str) -> str:
        """The first line of a file, empty when the group lacks it."""
        return self.files.get(file, "").split("\n", 1)[0].strip()

    def number(self, file: str) -> int | None:
        """A file's number; None when the group lacks it, or there is no limit."""
        text = self.text(file)
        return int(text) if text.isdecimal() else None

    def flat(self, file: str) -> Mapping[str, int]:
        """A file of lines ``key number``, such as cpu.stat."""
        pairs = (line.split() for line in self.files.get(file, "").splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}

    def nested(self, file: str) -> Mapping[str, Mapping[str, str]]:
        """A file of lines ``name key=value key=value``, such as io.stat and memory.pressure."""
        rows = (line.split() for line in self.files.get(file, "").splitlines() if line)
        return {
            row[0]: {key: value for key, _, value in (pair.partition("=") for pair in row[1:])}
            for row in rows
        }

    def members(self, file: str) -> Sequence[int]:
        """A file of process or thread ids."""
        return [int(line) for line in self.files.get(file, "").split()]

    def walk(self, prefix: str = "", below: str = "") -> Iterator[tuple[str, "Group"]]:
        """This group and all below with the lines of a drawn tree before their names."""
        yield prefix, self
        names = sorted(self.groups)
        for name in names:
            is_last = name == names[-1]
            corner, bar = ("└──", "    ") if is_last else ("├──", "│   ")
            yield from self.groups[name].walk(below + corner, below + bar)


def read_groups(archive: IO[bytes]) -> Group:
    """The root group of version 2; an empty one when the node has none.

    UNREADABLE, as of an archive's parts. What no kernel has is left out: longer files, deeper groups.
    """
    root = Group(name=".")
    with tarfile.open(fileobj=archive, mode="r|gz") as tar:
        for member in tar:
            *path, name = member.name.removeprefix("./").split("/")
            content = tar.extractfile(member) if member.isfile() else None
            if content is None or member.size > MAX_FILE or len(path) > MAX_DEPTH:
                continue
            group = root
            for part in path:
                group = group.groups.setdefault(part, Group(name=part))
            group.files[name] = content.read().decode("utf-8", "replace")
    if CONTROLLERS in root.files:
        return root
    unified = root.groups.get(UNIFIED)
    return Group(name=".", files=unified.files, groups=unified.groups) if unified else Group(name=".")
