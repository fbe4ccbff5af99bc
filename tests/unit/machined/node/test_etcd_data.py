"""etcd's data directory, and snapshots that are none."""

import hashlib
from pathlib import Path

import pytest

from talos.machined.node.etcd_data import (
    adopt,
    check_snapshot,
    erase,
    has_data,
    prepare,
)
from talos.system.errors import UserError

DATABASE = bytes(16) + 0xED0CDAED.to_bytes(4, "little") + bytes(16 * 1024 - 20)
SNAPSHOT = DATABASE + hashlib.sha256(DATABASE).digest()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (SNAPSHOT, ""),
        (SNAPSHOT[:-1], "truncated"),
        (SNAPSHOT[:-32], "a copy of the database"),
        (SNAPSHOT[:-1] + bytes([SNAPSHOT[-1] ^ 1]), "its hash does not match"),
        (SNAPSHOT[:8192] + b"x" + SNAPSHOT[8193:], "its hash does not match"),
        (b"", "is no snapshot"),
        (b"no database" * 1000, "is no snapshot"),
        (None, "no snapshot was uploaded"),
    ],
)
def test_snapshots_are_checked(tmp_path: Path, content: bytes | None, text: str) -> None:
    path = tmp_path / "s"
    if content is not None:
        path.write_bytes(content)
    if not text:
        check_snapshot(path)
        return
    with pytest.raises(UserError, match=text):
        check_snapshot(path)


def test_a_copy_of_the_database_has_no_hash(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(DATABASE)
    check_snapshot(tmp_path / "s", skip_hash_check=True)


def test_a_member_begins_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "member/snap").mkdir(parents=True)
    (tmp_path / "member/snap/db").write_bytes(b"1")
    assert not has_data(tmp_path)
    prepare(tmp_path)
    assert (tmp_path / "member.unfinished/snap/db").read_bytes() == b"1"
    (tmp_path / "restored/member/wal").mkdir(parents=True)
    adopt(tmp_path)
    assert has_data(tmp_path)
    assert not (tmp_path / "restored").exists()
    erase(tmp_path)
    assert list(tmp_path.iterdir()) == []
