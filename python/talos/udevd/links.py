"""Links below ``/dev``, which several devices may claim."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

MAX_PART = 250
"""Bytes of each part of a link: a file's name has 255, and that of one that is being made is five longer."""


@dataclass(slots=True)
class Links:
    """All links made by udevd. The claimant with the highest priority has a link, then the first one.

    Their names come from labels, serial numbers and rules: ``report`` gets what is wrong with those that
    can't be made. No device keeps the others from being found.
    """

    dev: Path
    report: Callable[[str], object]
    _claims: dict[str, dict[str, tuple[int, int]]] = field(
        default_factory=dict[str, dict[str, tuple[int, int]]]
    )
    _wanted: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    _count: int = 0

    def claim(self, node: str, wanted: Mapping[str, int]) -> None:
        """Node (``sda1``) has exactly these links from now on; an empty mapping removes all."""
        wanted = {link: priority for link, priority in wanted.items() if self._is_possible(link, node)}
        before = self._wanted.get(node, frozenset())
        if not before and not wanted:
            return
        self._wanted[node] = frozenset(wanted)
        for link in before - wanted.keys():
            del self._claims[link][node]
        for link, priority in wanted.items():
            claims = self._claims.setdefault(link, {})
            if node in claims:
                claims[node] = (priority, claims[node][1])
            else:
                self._count += 1
                claims[node] = (priority, -self._count)
        for link in sorted(before | wanted.keys()):
            try:
                self._make(link)
            except OSError as error:  # such as a rule's link below another one
                self.report(f"/dev/{link} can't be made for {node}: {error.strerror}")

    def _is_possible(self, link: str, node: str) -> bool:
        """Whether a link is below ``/dev``, and a file may be called so. A label may be ``..``, or long."""
        parts = link.split("/")
        if not any(part in {"", ".", ".."} or len(os.fsencode(part)) > MAX_PART for part in parts):
            return True
        self.report(f"{node} gets no link {link[:MAX_PART]}: that is no name of a file")
        return False

    def of(self, node: str) -> list[str]:
        """The links that lead to a node, sorted; relative to ``/dev``."""
        return sorted(link for link in self._wanted.get(node, ()) if self.owner(link) == node)

    def paths_of(self, node: str) -> list[str]:
        """The same as whole paths."""
        return [f"/dev/{link}" for link in self.of(node)]

    def sweep(self) -> None:
        """Remove links below ``/dev/disk`` without a device: an earlier udevd made them."""
        for path in sorted(self.dev.glob("disk/*/*")):
            if path.is_symlink() and not self.owner(str(path.relative_to(self.dev))):
                self._remove(path)

    def owner(self, link: str) -> str:
        """The device that a link leads to; empty when it is unused."""
        claims = self._claims.get(link)
        return max(claims, key=lambda node: claims[node]) if claims else ""

    def _make(self, link: str) -> None:
        path = self.dev / link
        owner = self.owner(link)
        if not owner:
            self._claims.pop(link, None)
            self._remove(path)
            return
        target = os.path.relpath(self.dev / owner, path.parent)
        if path.is_symlink() and os.readlink(path) == target:  # noqa: PTH115 - compared as text
            return
        if path.exists() and not path.is_symlink():
            return  # a device's own node is never replaced
        path.parent.mkdir(parents=True, exist_ok=True)
        # Beside and over it: at no moment is there no link.
        fresh = path.with_name(f".{path.name}.new")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(target)
        fresh.replace(path)

    def _remove(self, path: Path) -> None:
        if not path.is_symlink():
            return
        path.unlink()
        parent = path.parent
        while parent != self.dev:
            with suppress(OSError):
                parent.rmdir()
                parent = parent.parent
                continue
            return
