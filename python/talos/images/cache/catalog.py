"""Where a read-only registry finds its content, and the catalog of folders in the flat layout."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol, override

from talos.images.cache.layout import MANIFESTS, name_blob, name_manifest, name_registry
from talos.images.manifest import INDEX_TYPES, MANIFEST_TYPES, MAX_MANIFEST, find_form, parse_document
from talos.images.reference import DIGEST, is_registry, is_repository, is_tag
from talos.system.errors import UserError

BLOB_TYPE = "application/octet-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A manifest or a blob: ``size`` bytes of a file from ``offset`` on."""

    path: Path
    size: int
    digest: str
    media_type: str = BLOB_TYPE
    offset: int = 0


class InvalidNameError(Exception):
    """A request names what can be no registry, repository, tag or digest."""


class Catalog(Protocol):
    """Images by their names. The methods are called in several threads."""

    def find_manifest(self, registry: str, repository: str, object: str) -> Content | None:
        """A manifest by a tag or its digest; an empty ``registry`` is any. InvalidNameError."""
        ...

    def find_blob(self, digest: str) -> Content | None:
        """A config or a layer; InvalidNameError."""
        ...


class FlatCatalog(Catalog):
    """The images of folders in the flat layout; the first folder that has one counts."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = tuple(roots)

    @override
    def find_manifest(self, registry: str, repository: str, object: str) -> Content | None:
        is_known = DIGEST.fullmatch(object) or is_tag(object)
        if not is_known or not is_repository(repository) or not (registry == "" or is_registry(registry)):
            raise InvalidNameError
        for root in self._roots:
            for folder in [name_registry(registry)] if registry else _list(root / MANIFESTS):
                found = _read_manifest(root, folder, repository, object)
                if found is not None:
                    return found
        return None

    @override
    def find_blob(self, digest: str) -> Content | None:
        if not DIGEST.fullmatch(digest):
            raise InvalidNameError
        for root in self._roots:
            path = _find_file(root, name_blob(digest))
            if path is not None:
                return Content(path=path, size=path.stat().st_size, digest=digest)
        return None


def _list(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def _find_file(root: Path, name: PurePosixPath) -> Path | None:
    """An ordinary file below a root. No link out of it is followed: what is on the disk is not trusted."""
    try:
        path = (root / name).resolve(strict=True)
        return path if path.is_relative_to(root.resolve()) and path.is_file() else None
    except (OSError, RuntimeError):
        return None


def _read_manifest(root: Path, folder: str, repository: str, object: str) -> Content | None:
    path = _find_file(root, name_manifest(folder, repository, object))
    if path is None:
        return None
    with path.open("rb") as file:
        data = file.read(MAX_MANIFEST + 1)
    algorithm = object.partition(":")[0] if ":" in object else "sha256"
    digest = f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"
    if ":" in object and digest != object:
        return None
    # Clients request it by its digest next.
    path = _find_file(root, name_manifest(folder, repository, digest))
    media_type = _find_type(data)
    if path is None or media_type is None:
        return None
    return Content(path=path, size=len(data), digest=digest, media_type=media_type)


def _find_type(data: bytes) -> str | None:
    """The media type of a manifest or an index, None of anything else."""
    try:
        named: object = parse_document(data, "").get("mediaType")
        if named in (*INDEX_TYPES, *MANIFEST_TYPES):
            return str(named)
        return (INDEX_TYPES if find_form(data, "", "") == "index" else MANIFEST_TYPES)[0]
    except UserError:
        return None
