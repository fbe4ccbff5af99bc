"""The flat layout of a cache of images: ordinary files, by registry, repository, tag and digest.

``blob/sha256-HEX`` has configs and layers, ``manifests/REGISTRY/REPOSITORY/digest/sha256-HEX`` manifests and
indexes, ``manifests/REGISTRY/REPOSITORY/reference/TAG`` the same once more by what a tag means.
"""

from pathlib import PurePosixPath

BLOBS, MANIFESTS = "blob", "manifests"
DIGESTS, TAGS = "digest", "reference"


def name_blob(digest: str) -> PurePosixPath:
    """The place of a config or a layer."""
    return PurePosixPath(BLOBS, name_digest(digest))


def name_digest(digest: str) -> str:
    """A digest as the name of a file."""
    return digest.replace(":", "-", 1)


def name_registry(registry: str) -> str:
    """The folder of a registry: ``host_5000_`` stands for ``host:5000``."""
    host, colon, port = registry.rpartition(":")
    return f"{host}_{port}_" if colon and port.isdecimal() else registry


def name_manifest(registry: str, repository: str, object: str) -> PurePosixPath:
    """The place of a manifest or an index by its digest or a tag."""
    folder = PurePosixPath(MANIFESTS, name_registry(registry), repository)
    return folder / DIGESTS / name_digest(object) if ":" in object else folder / TAGS / object
