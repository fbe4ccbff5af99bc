"""etcd's data directory and the snapshot to begin with: what is there, is it whole, erase it."""

import hashlib
import os
import shutil
from pathlib import Path

from talos.disks.volumes.folders import ETCD_USER
from talos.etcd import paths
from talos.system.errors import UserError
from talos.system.files import flush_folder

DATA = Path(paths.DATA)
LOG = Path("member/wal")
"""The folder within it that exists from the moment at which a member's data is whole."""
SNAPSHOT = Path("/var/lib/etcd.snapshot")
"""Where an uploaded snapshot is kept."""
RESTORED = "restored"
"""The directory below :data:`DATA` that a snapshot is restored into, before it counts."""
MEMBER, UNFINISHED = "member", "member.unfinished"

_PAGE = 4096
_META = 16
"""Bytes before a bbolt page's content; the first two pages are its meta pages."""
_MAGIC = 0xED0CDAED.to_bytes(4, "little")
_HASH = 32
_SECTOR = 512
"""A database has whole sectors, so what is left over is the SHA-256 at the end of a snapshot."""


def has_data(data: Path = DATA) -> bool:
    """Whether a member has begun here."""
    return (data / LOG).is_dir()


def prepare(data: Path = DATA) -> None:
    """Make room for a member that begins; what an interrupted one has left is kept aside once."""
    shutil.rmtree(data / RESTORED, ignore_errors=True)
    member = data / MEMBER
    if member.exists():
        shutil.rmtree(data / UNFINISHED, ignore_errors=True)
        member.rename(data / UNFINISHED)


def adopt(data: Path = DATA) -> None:
    """Let a restored directory be the member's, all at once."""
    (data / RESTORED / MEMBER).rename(data / MEMBER)
    shutil.rmtree(data / RESTORED, ignore_errors=True)
    flush_folder(data)


def erase(data: Path = DATA) -> None:
    """Remove everything that belongs to a member which has left."""
    for name in os.listdir(data):  # noqa: PTH208 - names are enough
        path = data / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    flush_folder(data)


def check_snapshot(path: Path = SNAPSHOT, *, skip_hash_check: bool = False) -> None:
    """Refuse a file that etcd could not begin with.

    UserError: it is missing, no snapshot, or truncated.
    """
    hint = "upload it again: talosctl bootstrap --recover-from"
    if not path.is_file():
        raise UserError("no snapshot was uploaded", where=str(path), hint=hint)
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(2 * _PAGE)
        if _MAGIC not in (head[_META : _META + 4], head[_PAGE + _META : _PAGE + _META + 4]):
            raise UserError("is no snapshot of etcd", where="snapshot", hint="see talosctl etcd snapshot")
        if skip_hash_check:
            return
        if size % _SECTOR != _HASH:
            raise UserError(
                "has no hash at its end: it is truncated, or a copy of the database",
                where="snapshot",
                hint="for a copy use --recover-skip-hash-check",
            )
        file.seek(0)
        digest, left = hashlib.sha256(), size - _HASH
        while left and (piece := file.read(min(left, 1 << 20))):
            digest.update(piece)
            left -= len(piece)
        if file.read(_HASH) != digest.digest():
            raise UserError("is damaged: its hash does not match", where="snapshot", hint=hint)


def chown_to_etcd(path: Path) -> None:
    """Let etcd's user read a file, and no one write it."""
    os.chown(path, ETCD_USER, ETCD_USER)
    path.chmod(0o400)
