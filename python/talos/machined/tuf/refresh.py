"""How trusted files of a repository are brought up to date.

https://theupdateframework.github.io/specification/v1.0.33/ (section 5), for one file that the top-level
targets list, and with consistent snapshots.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

from talos.machined.containerd.verify.trusted_root import parse_trusted_root
from talos.machined.tuf.metadata import (
    FileInfo,
    Metadata,
    Role,
    check_expiry,
    check_signatures,
    find_metadata,
    find_target,
    is_signed,
    list_metadata,
    parse_metadata,
)
from talos.machined.tuf.trusted import TrustedMetadata
from talos.system.errors import UserError

TARGET = "trusted_root.json"
MAX_ROOTS = 64
"""New roots that one refresh follows; Sigstore makes two a year."""
MAX_LENGTHS = {
    Role.ROOT: 64 * 1024,
    Role.TIMESTAMP: 16 * 1024,
    Role.SNAPSHOT: 64 * 1024,
    Role.TARGETS: 128 * 1024,
}
"""Bytes of metadata. Sigstore's have 5.6, 0.5, 2.3 and 4.4 KiB."""
MAX_TARGET = 256 * 1024
"""Bytes of a trusted root. Sigstore's has 6.8 KiB."""

type Fetch = Callable[[str, int], bytes | None]
"""Fetches a file of the repository of so many bytes at most; None when there is none. UserError."""


def refresh(trusted: TrustedMetadata, fetch: Fetch, now: datetime) -> Iterator[TrustedMetadata]:
    """Yields what is trusted after each step, which is to be kept even if a later one fails; UserError.

    Only a whole refresh changes the ``trusted_root``.
    """
    root = parse_metadata(trusted.root.encode(), Role.ROOT)
    for _ in range(MAX_ROOTS):
        data = fetch(f"{root.version + 1}.root.json", MAX_LENGTHS[Role.ROOT])
        if data is None:
            break
        root = _follow(root, parse_metadata(data, Role.ROOT))
        trusted = replace(trusted, root=root.text)
        yield trusted
    # Those before it may have expired: they were replaced.
    check_expiry(root, now)
    timestamp = _update_timestamp(trusted.timestamp, root, fetch)
    trusted = replace(trusted, timestamp=timestamp.text)
    yield trusted
    check_expiry(timestamp, now)
    snapshot = _update_snapshot(trusted.snapshot, root, timestamp, fetch)
    trusted = replace(trusted, snapshot=snapshot.text)
    yield trusted
    check_expiry(snapshot, now)
    info = find_metadata(snapshot, "targets.json")
    targets = _find_kept(trusted.targets, Role.TARGETS, root, info) or _fetch_listed(
        info, Role.TARGETS, root, fetch
    )
    trusted = replace(trusted, targets=targets.text)
    yield trusted
    check_expiry(targets, now)
    text = _update_target(trusted.trusted_root, find_target(targets, TARGET), fetch)
    yield replace(trusted, trusted_root=text, version=targets.version, refreshed=int(now.timestamp()))


def choose_root(one: str, other: str) -> str:
    """The newer one of two that are trusted: an image brings one, and a refresh another. UserError."""
    try:
        kept = parse_metadata(one.encode(), Role.ROOT).version
    except UserError:
        return other
    return one if kept >= parse_metadata(other.encode(), Role.ROOT).version else other


def _follow(root: Metadata, following: Metadata) -> Metadata:
    """The next root: signed by keys of the one before it, and by its own."""
    check_signatures(following, root)
    check_signatures(following, following)
    if following.version != root.version + 1:
        raise UserError(f"it stands where version {root.version + 1} has to", where=following.where)
    return following


def _load(text: str, role: Role, root: Metadata) -> Metadata | None:
    """What was kept; None when there is nothing by the keys of the root.

    Once keys are replaced, what those before have signed is no reason to refuse lower versions.
    """
    try:
        kept = parse_metadata(text.encode(), role)
    except UserError:
        return None
    return kept if is_signed(kept, root) else None


def _find_kept(text: str, role: Role, root: Metadata, info: FileInfo) -> Metadata | None:
    """What was kept, if it is what is listed now."""
    kept = _load(text, role, root) if info.matches(text.encode()) else None
    return kept if kept is not None and kept.version == info.version else None


def _update_timestamp(text: str, root: Metadata, fetch: Fetch) -> Metadata:
    """The repository's, or the one that was kept where it has the same version; not expired, maybe."""
    name = "timestamp.json"
    current = parse_metadata(_fetch(name, MAX_LENGTHS[Role.TIMESTAMP], fetch), Role.TIMESTAMP)
    check_signatures(current, root)
    kept = _load(text, Role.TIMESTAMP, root)
    if kept is None:
        return current
    _check_version(name, kept.version, current.version)
    if current.version == kept.version:
        return kept
    listed = "snapshot.json"
    _check_version(listed, find_metadata(kept, listed).version, find_metadata(current, listed).version)
    return current


def _update_snapshot(text: str, root: Metadata, timestamp: Metadata, fetch: Fetch) -> Metadata:
    """The one that a timestamp lists, in which no file is older than in the one that was kept."""
    info = find_metadata(timestamp, "snapshot.json")
    if found := _find_kept(text, Role.SNAPSHOT, root, info):
        return found
    snapshot = _fetch_listed(info, Role.SNAPSHOT, root, fetch)
    if kept := _load(text, Role.SNAPSHOT, root):
        for name in list_metadata(kept):
            _check_version(name, find_metadata(kept, name).version, find_metadata(snapshot, name).version)
    return snapshot


def _update_target(text: str, info: FileInfo, fetch: Fetch) -> str:
    """The trusted root that is listed; UserError, also when this version can't read it."""
    if text and info.matches(text.encode()):
        return text
    data = _fetch_file(info, MAX_TARGET, fetch)
    try:
        found = data.decode()
    except UnicodeDecodeError:
        raise UserError("it is no text", where=info.name) from None
    parse_trusted_root(found)
    return found


def _check_version(name: str, kept: int, current: int) -> None:
    if current < kept:
        raise UserError(f"version {current} is older than {kept}, which it had before", where=name)


def _fetch_listed(info: FileInfo, role: Role, root: Metadata, fetch: Fetch) -> Metadata:
    """A file that another lists, of that version; UserError."""
    metadata = parse_metadata(_fetch_file(info, MAX_LENGTHS[role], fetch), role)
    check_signatures(metadata, root)
    if metadata.version != info.version:
        raise UserError(f"it has the version {metadata.version}", where=info.name)
    return metadata


def _fetch_file(info: FileInfo, bound: int, fetch: Fetch) -> bytes:
    """A file with the length and the digests that another lists; UserError."""
    if info.length is not None and info.length > bound:
        raise UserError(f"{info.length} bytes are listed, at most {bound} are read", where=info.name)
    data = _fetch(info.name, info.length or bound, fetch)
    if not info.matches(data):
        raise UserError("it is not the file that is listed: length or digest differ", where=info.name)
    return data


def _fetch(name: str, bound: int, fetch: Fetch) -> bytes:
    data = fetch(name, bound)
    if data is None:
        raise UserError("the repository does not have it", where=name)
    return data
