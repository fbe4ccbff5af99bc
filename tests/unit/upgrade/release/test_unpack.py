"""An initramfs from outside: each bound on what is read of it."""

from pathlib import Path

import pytest

from talos.system.errors import UserError
from talos.upgrade.release.initramfs import RELEASE, read_folder
from talos.upgrade.release.unpack import read_members, unpack_release, unpack_system

FIELDS = 13
NAME_SIZE, CONTENT_SIZE = 11, 6
"""Places of these among the fields of a header."""


def make_member(name: str = "init", content: bytes = b"x", **fields: int) -> bytes:
    """A plain file; ``fields`` replace values of its header, by ``f`` and the place."""
    values = [0] * FIELDS
    values[1], values[CONTENT_SIZE], values[NAME_SIZE] = 0o100644, len(content), len(name) + 1
    for key, value in fields.items():
        values[int(key.removeprefix("f"))] = value
    header = b"070701" + b"".join(b"%08X" % value for value in values) + name.encode() + b"\0"
    return header + bytes(-len(header) % 4) + content + bytes(-len(content) % 4)


def read(data: bytes) -> list[tuple[str, bytes]]:
    return [(member.name, b"".join(member.content)) for member in read_members([data])]


def test_files_are_read_in_order_and_zeros_between_them_are_left_out() -> None:
    data = make_member("one", b"1") + bytes(512) + make_member("two", b"")
    assert read(data) == [("one", b"1"), ("two", b"")]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (make_member(f11=257), "a file whose name or content is too long"),
        (make_member(f11=1), "a file whose name or content is too long"),
        (make_member(f6=(1 << 30) + 1), "a file whose name or content is too long"),
        (make_member() * 257, "has too many files"),
        (make_member()[:100], "ends too early"),
        (make_member(content=b"x" * 100)[:150], "ends too early"),
        (b"070702" + make_member()[6:], "is no archive that the kernel unpacks"),
        (make_member().replace(b"000081A4", b"0000wxyz"), "is no archive that the kernel unpacks"),
    ],
)
def test_what_is_no_archive_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(UserError, match=f"initramfs: .*{text}"):
        read(data)


def test_more_keys_than_a_system_reads_are_refused(tmp_path: Path) -> None:
    keys = tmp_path / "release/keys"
    keys.mkdir(parents=True)
    for number in range(17):
        (keys / f"{number}.pub").write_text("key")
    with pytest.raises(UserError, match="has more than 16 keys"):
        unpack_system(read_folder(keys.parent, RELEASE), tmp_path)


def test_a_container_node_has_the_number_of_signatures_beside_the_keys(tmp_path: Path) -> None:
    keys = tmp_path / "release/keys"
    keys.mkdir(parents=True)
    for name, content in {"0.pub": "key", "signatures": "2\n", "other": "x"}.items():
        (keys / name).write_text(content)
    unpack_release(read_folder(keys.parent, RELEASE), tmp_path / "node")
    found = {path.name: path.read_text() for path in (tmp_path / "node/release/keys").iterdir()}
    assert found == {"0.pub": "key", "signatures": "2\n"}
