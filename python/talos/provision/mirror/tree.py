"""A folder in the flat layout of a cache of images, while it is being filled."""

import hashlib
import os
import shutil
from collections.abc import AsyncGenerator, Callable
from pathlib import Path, PurePosixPath

import trio

from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.images.cache.layout import name_blob
from talos.images.registry.hosts import RegistryError
from talos.images.registry.session import Session

_MODE, _FOLDER_MODE = 0o644, 0o755


class Tree:
    """A folder in the flat layout that is being filled. ``layers`` keeps blobs for other caches, too."""

    def __init__(self, root: Path, layers: Path | None = None) -> None:
        self.root = root
        self._layers = layers
        self._kept: set[Path] = set()
        root.mkdir(parents=True, exist_ok=True)
        if layers is not None:
            layers.mkdir(parents=True, exist_ok=True)

    def write(self, name: PurePosixPath, data: bytes) -> None:
        """Write a small file, as a whole."""
        path = self._keep(name)
        fresh = path.with_name(f".{path.name}.new")
        fresh.write_bytes(data)
        fresh.chmod(_MODE)
        fresh.replace(path)

    async def store(self, session: Session, part: Descriptor, advance: Callable[[int], None]) -> None:
        """Store a blob, fetched unless it is there; ``advance`` is called with the bytes of each step."""
        path = self._keep(name_blob(part.digest))
        kept = path if self._layers is None else self._layers / path.name
        if not await trio.to_thread.run_sync(is_intact, kept, part):
            fresh = kept.with_name(f".{kept.name}.new")

            async def write(chunks: AsyncGenerator[bytes]) -> None:
                await _write_blob(fresh, part, chunks, advance)

            await session.fetch_blob(part, write)
            fresh.replace(kept)
        else:
            advance(part.size)
        if kept != path:
            path.unlink(missing_ok=True)
            await trio.to_thread.run_sync(_link, kept, path)

    def prune(self) -> None:
        """Remove files of earlier runs that these images don't need; make folders readable for all."""
        for folder, _, names in os.walk(self.root, topdown=False):
            for path in (Path(folder, name) for name in names):
                if path not in self._kept:
                    path.unlink()
            if not os.listdir(folder):  # noqa: PTH208 - as fast as possible, there are many
                Path(folder).rmdir()
            else:
                Path(folder).chmod(_FOLDER_MODE)

    def _keep(self, name: PurePosixPath) -> Path:
        path = self.root / name
        self._kept.add(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def is_intact(path: Path, part: Descriptor) -> bool:
    """Whether a blob is there, with its size and its digest."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size != part.size:
                return False
            algorithm, _, digest = part.digest.partition(":")
            return hashlib.file_digest(file, algorithm).hexdigest() == digest
    except OSError:
        return False


async def _write_blob(
    path: Path, part: Descriptor, chunks: AsyncGenerator[bytes], advance: Callable[[int], None]
) -> None:
    algorithm, _, wanted = part.digest.partition(":")
    digest, come = hashlib.new(algorithm), 0
    with path.open("wb") as file:
        try:
            async for chunk in chunks:
                digest.update(chunk)
                file.write(chunk)
                come += len(chunk)
                advance(len(chunk))
        except BaseException:
            advance(-come)
            raise
        os.fchmod(file.fileno(), _MODE)
    if digest.hexdigest() != wanted:
        advance(-come)
        raise RegistryError("what it sends is not this blob")


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)
