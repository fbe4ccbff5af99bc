"""Container images in OCI archives (image-spec, image-layout.md): names, and where blobs lie in the files."""

import json
import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from talos.system.errors import UserError

NAME_ANNOTATION = "io.containerd.image.name"
SUFFIX = ".tar"
_REFERENCE = re.compile(r"(?P<host>[a-z0-9.-]+(?::\d+)?)/(?P<name>[a-z0-9._/-]+):(?P<tag>[\w.-]{1,128})")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_BLOBS = "blobs/sha256/"
_MAX_INDEX = 1 << 20
"""Bytes of an index; one image takes about 500."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Where a blob's bytes are."""

    path: Path
    offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a name leads to."""

    host: str
    name: str
    tag: str
    digest: str
    media_type: str


@dataclass(frozen=True, slots=True)
class Images:
    """The content of all archives; ``blobs`` by digest."""

    manifests: tuple[Manifest, ...]
    blobs: dict[str, Blob]

    @property
    def registries(self) -> list[str]:
        """The hosts in the images' names, sorted."""
        return sorted({manifest.host for manifest in self.manifests})

    def tag_of(self, name: str) -> str:
        """The tag of the only image of this name, without its host; empty when there is none."""
        return next((manifest.tag for manifest in self.manifests if manifest.name == name), "")

    def find(self, name: str, reference: str, host: str) -> Manifest | None:
        """The manifest of a tag or a digest; an empty ``host`` is any."""
        for manifest in self.manifests:
            if reference == manifest.digest or (
                (manifest.name, manifest.tag) == (name, reference) and host in ("", manifest.host)
            ):
                return manifest
        return None


def read_images(folder: Path) -> Images:
    """Every archive of a folder.

    UserError: when there is none, or one is damaged or has an image without a full name.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX)
    except OSError as error:
        raise UserError(
            f"can't be read: {error.strerror}", where=str(folder), hint="build them: make images"
        ) from None
    if not paths:
        raise UserError(
            f"no OCI archive (*{SUFFIX}) is there", where=str(folder), hint="build them: make images"
        )
    manifests: list[Manifest] = []
    blobs: dict[str, Blob] = {}
    for path in paths:
        try:
            found, own = _read_archive(path)
            manifests += found
            blobs |= own
        except (KeyError, TypeError, ValueError, OSError, tarfile.TarError) as error:
            raise UserError(f"this is no OCI archive: {error}", where=str(path)) from None
    return Images(tuple(manifests), blobs)


def _read_archive(path: Path) -> tuple[Sequence[Manifest], dict[str, Blob]]:
    blobs: dict[str, Blob] = {}
    index: dict[str, Any] | None = None
    with tarfile.open(path, "r:") as archive:
        for member in archive:
            if member.name.startswith(_BLOBS) and member.isreg():
                digest = "sha256:" + member.name.removeprefix(_BLOBS)
                blobs[digest] = Blob(path, member.offset_data, member.size)
            elif member.name == "index.json" and (file := archive.extractfile(member)):
                index = cast("dict[str, Any]", json.loads(file.read(_MAX_INDEX)))
    if index is None:
        raise ValueError("it has no index.json")
    return [_parse_manifest(entry, blobs) for entry in index["manifests"]], blobs


def _parse_manifest(entry: dict[str, Any], blobs: dict[str, Blob]) -> Manifest:
    reference, digest = str(entry["annotations"][NAME_ANNOTATION]), str(entry["digest"])
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise ValueError(f"{reference!r} is not a full image name, such as registry.k8s.io/pause:3.10")
    if not _DIGEST.fullmatch(digest) or digest not in blobs:
        raise ValueError(f"the manifest of {reference} is missing")
    return Manifest(**match.groupdict(), digest=digest, media_type=str(entry["mediaType"]))
