"""Modules of a node's start in one file, in the order in which they are needed.

Python looks for a module in each folder of its path and reads a small file of it. In the
compressed image every one of these reads may unpack a block of 256 KiB; one after the other from
one file, each block is unpacked once, and a child does that ahead on another processor.

``modules/rootfs/bundle.py`` writes these files: eight bytes with the size of the index, the index,
the modules' code. The index maps a name to offset, size (0: a namespace), path, and whether it is a
package. Objects that are no modules are there by names that no module has.

Nothing is imported here that Python has not loaded at its start.
"""

import marshal
import os
import sys
from _frozen_importlib import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import CodeType, ModuleType
    from typing import Any

HEAD = 8
"""Bytes of the index's length, which come first, little-endian."""
READ = 1024 * 1024
BUNDLES = (
    "/usr/lib/python3.13/start.bundle",
    "/usr/lib/talos/start.bundle",
    "/usr/lib/python3/dist-packages/start.bundle",
)
"""Where the image has them."""
AHEAD = (
    "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
    BUNDLES[2],
    BUNDLES[1],
    "/usr/lib/python3/dist-packages/cryptography/hazmat/bindings/_rust.abi3.so",
)
"""What is worth reading ahead: not what is needed first, which two would wait for."""

type Entry = tuple[int, int, str, bool]


class Bundle:
    """Finds and loads what its file holds; everything else is left to those after it."""

    def __init__(self, file: str) -> None:
        self.fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        size = int.from_bytes(os.pread(self.fd, HEAD, 0), "little")
        self._entries: dict[str, Entry] = marshal.loads(os.pread(self.fd, size, HEAD))  # noqa: S302 - the image
        self._start = HEAD + size

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> ModuleSpec | None:
        """The spec of a module; None when it is not here."""
        del path, target
        entry = self._entries.get(name)
        if entry is None:
            return None
        _, size, where, is_package = entry
        loader: Any = self if size else None  # it is one by what it does, not by its class
        spec = ModuleSpec(name, loader, origin=where if size else None, is_package=is_package)
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(where.rpartition("/")[0] if size else where)
        if size:
            spec.has_location = True
            spec.cached = where
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python."""

    def exec_module(self, module: "ModuleType") -> None:
        """Run a module's code."""
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102 - that is what importing is

    def get_code(self, name: str) -> "CodeType":
        """A module's code."""
        offset, size, _, _ = self._entries[name]
        return marshal.loads(os.pread(self.fd, size, self._start + offset))  # noqa: S302 - the image

    def find_object(self, name: str) -> "Any":
        """What was marshalled under a name; None when it is not here."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        return marshal.loads(os.pread(self.fd, entry[1], self._start + entry[0]))  # noqa: S302 - the image

    def is_package(self, name: str) -> bool:
        """Whether a module holds others."""
        return self._entries[name][3]


def open_bundles() -> "list[int]":
    """The descriptors of the bundles in use: modules are still loaded from them."""
    return [finder.fd for finder in sys.meta_path if isinstance(finder, Bundle)]


def find_object(name: str) -> "Any":
    """What was marshalled under a name in a bundle in use; None when there is nothing."""
    for finder in sys.meta_path:
        if isinstance(finder, Bundle) and (found := finder.find_object(name)) is not None:
            return found
    return None


def install(files: "Iterable[str]") -> None:
    """Import from these files before looking into folders; those that are missing are passed over."""
    for file in files:
        try:
            bundle = Bundle(file)
        except FileNotFoundError:
            continue
        sys.meta_path.insert(len(sys.meta_path) - 1, bundle)


def read_ahead(files: "Iterable[str]") -> None:
    """Read files in a child process, so that they are in the page cache when they are needed."""
    if os.fork() == 0:
        try:
            buffer = bytearray(READ)
            for file in files:
                fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
                while os.readv(fd, [buffer]):
                    pass
        finally:
            os._exit(0)
