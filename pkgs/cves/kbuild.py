"""Whether the kernel's build compiles a file: by the Makefiles of its source and a configuration."""

import re
import tarfile
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Self

_ASSIGNMENT = re.compile(r"^[ \t]*([^:+?=#\n]+?)[ \t]*[:+?]*=[ \t]*(.*)$", re.MULTILINE)
_CONDITION = re.compile(r"[\w-]+-\$\((CONFIG_\w+)\)")
_SET = re.compile(r"^(CONFIG_\w+)=[^n]", re.MULTILINE)
_COMPILED = (".c", ".S")
_ARCHITECTURE = 2
"""Parts of a path below arch/ that name an architecture."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A configuration, and what decides about each folder's members: symbols by folder and member."""

    symbols: frozenset[str]
    rules: dict[str, dict[str, set[str]]] = field(default_factory=dict[str, dict[str, set[str]]])

    @classmethod
    def read(cls, config: Path, source: Path) -> Self:
        """Read a finished configuration and the Makefiles of a tarball."""
        kernel = cls(frozenset(_SET.findall(config.read_text(encoding="utf-8"))))
        with tarfile.open(source, "r|*") as archive:
            for member in archive:
                path = PurePosixPath(*PurePosixPath(member.name).parts[1:])
                if (
                    path.name in ("Makefile", "Kbuild")
                    and member.isfile()
                    and (file := archive.extractfile(member))
                ):
                    kernel.add_makefile(str(path.parent), file.read().decode("utf-8", "replace"))
        return kernel

    def add_makefile(self, folder: str, text: str) -> None:
        """Read which symbols let which members be built; "" where anything else decides."""
        text = text.replace("\\\n", " ")
        rules = self.rules.setdefault(folder, {})
        for target, words in _ASSIGNMENT.findall(text):
            condition = _CONDITION.fullmatch(target)
            for word in words.split():
                rules.setdefault(word, set()).add(condition[1] if condition else "")

    def find_excluding(self, file: str) -> str:
        """The symbols that are off, so that a file is not built; "" where nothing proves that."""
        path = PurePosixPath(file)
        if not path.parts or path.is_absolute() or ".." in path.parts:
            return ""
        if path.parts[0] == "arch" and len(path.parts) > _ARCHITECTURE and path.parts[1] != "x86":
            return f"arch/{path.parts[1]}"
        folders = [*reversed(path.parents)]
        for folder, below in pairwise(folders):
            if off := self._find_off(str(folder), f"{below.name}/"):
                return off
        return self._find_off(str(path.parent), f"{path.stem}.o") if path.suffix in _COMPILED else ""

    def _find_off(self, folder: str, member: str) -> str:
        symbols = self.rules.get(folder, {}).get(member, set())
        if not symbols or symbols & (self.symbols | {""}):
            return ""
        return ", ".join(sorted(symbol.removeprefix("CONFIG_") for symbol in symbols))
