"""The manifest of a release: its version, and every file with size and digest. What the signature covers."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from talos.system.errors import UserError

WHERE = "release manifest"
MAX_MANIFEST = 64 * 1024
"""Bytes. A manifest with ten files has two thousand."""
MAX_FILES = 64
MAX_FEATURES = 512
MAX_FILE = 1 << 30
"""Bytes of one file; a boot partition has room for twice that."""
FOLDER = "usr/install/amd64"
"""Where the files of a release are in its layer, as upstream's installers have them."""
KERNEL, INITRAMFS, CMDLINE = "vmlinuz", "initramfs", "cmdline"
COMMIT_TIME, MAX_COMMIT_TIME = "commit-time", 20
"""A file with the time of the release's commit in seconds since the epoch, and bytes of it at most.

It is no field of the manifest, which earlier systems take only with exactly the fields that they have.
"""
REQUIRED = (KERNEL, INITRAMFS, CMDLINE)
"""Files without which nothing starts."""
UKI, UKI_LOADER = "vmlinuz.efi", "systemd-boot.efi"
"""Instead of them, where firmware checks what it starts: one signed file with all three, and its loader."""
UPDATES = {"db": "db.auth", "dbx": "dbx.auth"}
"""Files that add to the firmware's databases of Secure Boot: what it trusts, what it starts no more."""
MAX_UPDATE = 32 << 10
"""Bytes of one; firmware takes no larger variable."""
MAX_SECONDS_DIGITS = 11
"""Of a time that a year with four digits has."""
_FIELDS = ("version", "commit", "architecture", "minimum_version", "features", "files")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(r"v(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:-(alpha|beta|rc)\.(\d{1,6}))?")
_STAGES = {"alpha": 0, "beta": 1, "rc": 2, None: 3}

type VersionKey = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFile:
    """A file of a release. ``size`` in bytes, ``sha256`` in hexadecimal."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseManifest:
    """A release. ``minimum_version`` is the lowest that can be upgraded from.

    ``features`` names what this release can do that an earlier one may have put to use on a node.
    """

    version: str
    commit: str
    architecture: str
    minimum_version: str
    features: tuple[str, ...]
    files: Mapping[str, ReleaseFile]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())


def parse_version(text: str) -> VersionKey:
    """A version, ``v1.2.3`` or ``v1.2.3-beta.4``, as something that compares; ValueError."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no version such as v1.15.0 or v1.15.0-beta.1")
    major, minor, patch, stage, number = match.groups()
    return int(major), int(minor), int(patch), _STAGES[stage], int(number or 0)


def is_older(version: str, other: str) -> bool:
    """Whether a version comes before another; what is no version, such as a work tree's build, does not."""
    try:
        return parse_version(version) < parse_version(other)
    except ValueError:
        return False


def find_version(reference: str) -> str:
    """The version that an image's tag names, empty when it names none."""
    tag = reference.partition("@")[0].rpartition("/")[2].rpartition(":")[2]
    return tag if _VERSION.fullmatch(tag) else ""


def parse_release(data: bytes) -> ReleaseManifest:
    """Parse a manifest; UserError for anything that is not exactly one."""
    if len(data) > MAX_MANIFEST:
        raise _refuse(f"has {len(data)} bytes, at most {MAX_MANIFEST} are read")
    try:
        document: object = json.loads(data, object_pairs_hook=_make_object)
    except (ValueError, RecursionError) as error:
        raise _refuse(f"is no JSON: {error}") from None
    fields = _object(document, _FIELDS, "the manifest")
    files = [_parse_file(entry) for entry in _list(fields["files"], "files", MAX_FILES)]
    names = [file.name for file in files]
    if len(set(names)) != len(names):
        raise _refuse("names a file twice")
    missing = [name for name in REQUIRED if name not in names]
    if missing and UKI not in names:
        raise _refuse(f"lacks {', '.join(missing)}")
    return ReleaseManifest(
        version=_version(fields["version"], "version"),
        commit=_text(fields["commit"], "commit"),
        architecture=_text(fields["architecture"], "architecture"),
        minimum_version=_version(fields["minimum_version"], "minimum_version"),
        features=tuple(
            _text(name, "features") for name in _list(fields["features"], "features", MAX_FEATURES)
        ),
        files={file.name: file for file in files},
    )


def format_release(release: ReleaseManifest) -> bytes:
    """The manifest as JSON: the same release gives the same bytes."""
    document = {
        "version": release.version,
        "commit": release.commit,
        "architecture": release.architecture,
        "minimum_version": release.minimum_version,
        "features": list(release.features),
        "files": [
            {"name": file.name, "size": file.size, "sha256": file.sha256}
            for _, file in sorted(release.files.items())
        ],
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def check_release(
    release: ReleaseManifest,
    *,
    version: str,
    architecture: str,
    features: Sequence[str] = (),
    force: bool = False,
) -> list[str]:
    """Why this release may not replace a running ``version``; empty when it may.

    ``features`` are those in use on the node. ``force`` allows an older release, skipped minor versions, and
    one without some feature.
    """
    found: list[str] = []
    if release.architecture != architecture:
        found.append(f"the release is for {release.architecture}, this machine is {architecture}")
    missing = [name for name in features if name not in release.features]
    if missing and not force:
        names = ", ".join(missing)
        found.append(f"the release {release.version} lacks what this machine uses: {names}; force allows it")
    return found + check_version(release.version, release.minimum_version, running=version, force=force)


def check_version(new: str, minimum: str = "", *, running: str, force: bool = False) -> list[str]:
    """Why a release of a version may not replace the running one, as far as versions show it."""
    try:
        now = parse_version(running)
    except ValueError:
        return []  # a work tree's build has no place in the order
    then = parse_version(new)
    found: list[str] = []
    if minimum and now < parse_version(minimum):
        found.append(f"the release {new} can replace {minimum} or newer, not {running}")
    if force:
        return found
    if then < now:
        found.append(f"the release {new} is older than the running {running}; force allows it")
    elif then[0] != now[0] or then[1] > now[1] + 1:
        found.append(f"from {running} to {new} minor versions are skipped; force allows it")
    return found


def check_commit_time(
    release: ReleaseManifest, built: int, *, version: str, running: int, force: bool = False
) -> list[str]:
    """Why a build may not replace another one of its version: it is the older one.

    ``built`` and ``running`` are the times of their commits, 0 where they name none. A server of images
    could bring an old build back otherwise, with what was mended since.
    """
    if force or release.version != version or built >= running:
        return []
    when = f"of {format_time(built)}" if built else "without a time"
    return [
        f"the release is a build {when}, the running {version} is of {format_time(running)}; force allows it"
    ]


def parse_commit_time(text: str) -> int:
    """Seconds since the epoch; 0 for what is no such number."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_SECONDS_DIGITS else 0


def format_time(seconds: int) -> str:
    """A time for a person."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def find_oldest(version: str) -> str:
    """The lowest version that one can replace unless another is named: the first of the minor before."""
    major, minor = parse_version(version)[:2]
    return f"v{major}.{max(minor - 1, 0)}.0"


def _parse_file(value: object) -> ReleaseFile:
    fields = _object(value, ("name", "size", "sha256"), "a file")
    name, size, digest = fields["name"], fields["size"], fields["sha256"]
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise _refuse(f"{str(name)[:80]!r} is no name of a file")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= MAX_FILE:
        raise _refuse(f"{name}: {str(size)[:80]} is no size from 1 to {MAX_FILE} bytes")
    if not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
        raise _refuse(f"{name}: the digest is not 64 hexadecimal digits")
    return ReleaseFile(name=name, size=size, sha256=digest)


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key appears twice")
    return found


def _object(value: object, keys: Sequence[str], what: str) -> Mapping[str, object]:
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    if sorted(fields) != sorted(keys):
        raise _refuse(f"{what} needs exactly the fields {', '.join(keys)}")
    return fields


def _list(value: object, what: str, maximum: int) -> list[object]:
    items = cast("list[object]", value) if isinstance(value, list) else None
    if items is None or len(items) > maximum:
        raise _refuse(f"{what} is no list of at most {maximum}")
    return items


def _text(value: object, what: str) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise _refuse(f"{what}: {str(value)[:80]!r} is not a word")


def _version(value: object, what: str) -> str:
    text = _text(value, what)
    try:
        parse_version(text)
    except ValueError as error:
        raise _refuse(f"{what}: {error}") from None
    return text


def _refuse(text: str) -> UserError:
    return UserError(text, where=WHERE)
