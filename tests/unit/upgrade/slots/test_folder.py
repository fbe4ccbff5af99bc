"""A container node's slots: what is started, what a release becomes, and what the folder may hold."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from talos.system.block.meta import is_meta
from talos.system.block.verity import HashTree
from talos.system.errors import UserError
from talos.system.files import hash_file
from talos.upgrade.release.initramfs import (
    DIGESTS,
    EXTENSIONS,
    IMAGE,
    RELEASE,
    read_folder,
    read_initramfs,
)
from talos.upgrade.slots import folder as slot_folder
from talos.upgrade.slots.folder import WATCHDOG_TIMEOUT, Boot, SlotFolder

NO_TREE = HashTree("", b"")
"""Nodes that are containers have no use for one."""
A, B, TRIAL = Boot("A", is_trial=False), Boot("B", is_trial=False), Boot("B", is_trial=True)


@pytest.fixture
def slots(tmp_path: Path) -> SlotFolder:
    """The folder of a new node."""
    stamp = tmp_path / "stamp"
    stamp.write_bytes(make_stamp(tmp_path, "v1.15.0"))
    found = SlotFolder(tmp_path / "slots")
    found.create(stamp)
    return found


def make_stamp(folder: Path, version: str) -> bytes:
    """The archive with a release's identity."""
    release = folder / f"release-{version}"
    (release / "keys").mkdir(parents=True, exist_ok=True)
    (release / "os-release").write_text(f"ID=talos\nVERSION_ID={version}\n")
    (release / "keys/0.pub").write_text("key")
    return b"".join(read_folder(release, RELEASE))


def make_initramfs(folder: Path, version: str = "v1.16.0", size: int = 5000) -> bytes:
    """A release's initramfs, with zeros between its archives as boot loaders add them."""
    init, image = folder / "init", folder / "image"
    init.write_bytes(b"init")
    image.write_bytes(version.encode() * size)
    return b"".join(read_initramfs(init, image, NO_TREE)) + bytes(512) + make_stamp(folder, version)


def cut(data: bytes, size: int = 777) -> Iterator[bytes]:
    """The same in pieces."""
    return (data[place : place + size] for place in range(0, len(data), size))


def list_files(slots: SlotFolder) -> list[str]:
    return sorted(str(path.relative_to(slots.path)) for path in slots.path.rglob("*") if path.is_file())


def ignore(_: str) -> None:
    return


NEW = ["A/release/keys/0.pub", "A/release/os-release", "default", "meta"]


def test_a_new_node_starts_the_clusters_image(slots: SlotFolder) -> None:
    assert list_files(slots) == NEW
    assert slots.read() == ({"A": "v1.15.0"}, "A")
    assert (slots.choose(), slots.image("A")) == ([A], None)
    assert is_meta(slots.meta.read_bytes())
    slots.meta.write_bytes(b"kept")
    slots.create(None)
    assert slots.meta.read_bytes() == b"kept"


def test_a_system_is_written_started_once_and_made_the_default(slots: SlotFolder, tmp_path: Path) -> None:
    lines: list[str] = []
    slots.write("B", cut(make_initramfs(tmp_path)), lines.append)
    assert lines == ["writing slot B", "reading slot B back"]
    assert slots.read() == ({"A": "v1.15.0", "B": "v1.16.0"}, "A")
    image = slots.image("B")
    assert image is not None
    assert image.read_bytes() == b"v1.16.0" * 5000
    assert slots.choose() == [A, B], "nothing is tried without a request"
    slots.boot_once("B")
    assert slots.choose() == [TRIAL, A, B]
    assert slots.choose() == [A, B], "it is started once"
    slots.make_default("B")
    assert slots.choose() == [B, A]
    slots.write("A", cut(make_initramfs(tmp_path, "v1.17.0")), ignore)
    assert sorted(path.name for path in slots.path.iterdir()) == ["A", "B", "default", "meta"]


def test_the_default_is_not_overwritten(slots: SlotFolder, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="slot A is the default"):
        slots.write("A", cut(make_initramfs(tmp_path)), ignore)
    assert list_files(slots) == NEW


def add_extensions(folder: Path, **lists: str) -> bytes:
    """An archive with two layers, and lists that replace the right ones."""
    extensions = folder / "layers"
    extensions.mkdir(exist_ok=True)
    digests = ""
    for name in ("000.one.sqsh", "001.two.sqsh"):
        (extensions / name).write_bytes(name.encode() * 1000)
        digests += f"{hash_file(extensions / name)}  {name}\n"
    (extensions / DIGESTS).write_text(lists.get("digests", digests))
    (extensions / "extensions.yaml").write_text("layers: []\n")
    return b"".join(read_folder(extensions, EXTENSIONS))


def test_extensions_are_written_and_found_in_their_order(slots: SlotFolder, tmp_path: Path) -> None:
    slots.write("B", cut(make_initramfs(tmp_path) + add_extensions(tmp_path)), ignore)
    folder = slots.path / "B/extensions"
    assert slots.layers("B") == [folder / "000.one.sqsh", folder / "001.two.sqsh"]
    assert (folder / "extensions.yaml").read_text() == "layers: []\n"
    assert slots.layers("A") == []
    (folder / "001.two.sqsh").unlink()
    (folder / "001.two.sqsh").symlink_to("/dev/sda")
    with pytest.raises(UserError, match=r"001\.two\.sqsh: is missing"):
        slots.layers("B")


@pytest.mark.parametrize(
    ("digests", "reason"),
    [
        ("", "has the digest"),
        (f"{'0' * 64}  000.one.sqsh\n", "has the digest"),
        (f"{'0' * 64}  ../../B.sqsh\n", "is no digest of a layer"),
        (f"{'0' * 64} 000.one.sqsh\n", "is no digest of a layer"),
        (f"{'0' * 64}  a.sqsh\n{'0' * 64}  a.sqsh\n", "is no digest of a layer"),
        ("".join(f"{'0' * 64}  {number}.sqsh\n" for number in range(33)), "33 layers"),
        (f"{'0' * 64}  a.sqsh\n" * 200, "at most 8192"),
    ],
)
def test_extensions_that_are_not_as_listed_are_refused(
    digests: str, reason: str, slots: SlotFolder, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=reason):
        slots.write("B", cut(make_initramfs(tmp_path) + add_extensions(tmp_path, digests=digests)), ignore)
    assert list_files(slots) == NEW


@pytest.mark.parametrize("end", [0, 1, 3, 50, 150, 400, 5000, 30_000])
def test_a_part_of_an_initramfs_leaves_the_slot_as_it_was(
    end: int, slots: SlotFolder, tmp_path: Path
) -> None:
    with pytest.raises(UserError):
        slots.write("B", cut(make_initramfs(tmp_path)[:end]), ignore)
    assert list_files(slots) == NEW


def test_a_full_or_broken_disk_leaves_the_slot_as_it_was(
    slots: SlotFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots.write("B", cut(make_initramfs(tmp_path)), ignore)
    before = list_files(slots)

    def fail(data: Iterator[bytes]) -> Iterator[bytes]:
        yield next(data)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        slots.write("B", fail(cut(make_initramfs(tmp_path, "v1.17.0"))), ignore)
    with monkeypatch.context() as patched:
        patched.setattr(slot_folder, "_hash_disk", str)
        with pytest.raises(UserError, match="reads differently"):
            slots.write("B", cut(make_initramfs(tmp_path, "v1.17.0")), ignore)
    assert list_files(slots) == before
    assert slots.read()[0]["B"] == "v1.16.0"


def test_an_image_that_its_digest_denies_is_refused(slots: SlotFolder, tmp_path: Path) -> None:
    data = make_initramfs(tmp_path).replace(b"v1.16.0v1.16.0", b"v1.16.0v1.16.1", 1)
    with pytest.raises(UserError, match="its system image has the digest"):
        slots.write("B", cut(data), ignore)


@pytest.mark.parametrize("name", ["../../etc/passwd", "release/keys/../../x.pub", "release/keys/x/y.pub"])
def test_other_files_of_an_initramfs_are_left_out(name: str, slots: SlotFolder, tmp_path: Path) -> None:
    (tmp_path / "release-other").mkdir()
    (tmp_path / "release-other/os-release").write_text("VERSION_ID=v1.16.0\n")
    other = b"".join(read_folder(tmp_path / "release-other", RELEASE))
    # The name of a member has to keep its length.
    long = f"release/{'o' * (len(name) - 8)}" if len(name) > 8 else "release/"
    (tmp_path / "named" / "x").parent.mkdir()
    (tmp_path / "named" / long.removeprefix("release/")).write_text("evil")
    named = b"".join(read_folder(tmp_path / "named", RELEASE)).replace(long.encode(), name.encode())
    slots.write("B", cut(make_initramfs(tmp_path) + other + named), ignore)
    written = ["B/release/keys/0.pub", "B/release/os-release", f"B/{IMAGE}"]
    assert list_files(slots) == sorted([*NEW, *written])


@pytest.mark.parametrize("content", [b"", b"C\n", b"\xff" * 9000, b"A B"])
def test_garbage_in_place_of_a_slots_name_counts_as_a(content: bytes, slots: SlotFolder) -> None:
    (slots.path / "default").write_bytes(content)
    (slots.path / "next").write_bytes(content)
    assert slots.choose() == [A]
    assert not (slots.path / "next").exists()


def test_what_is_no_plain_file_is_not_followed(slots: SlotFolder, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("B\n")
    (slots.path / "default").unlink()
    (slots.path / "default").symlink_to(tmp_path / "target")
    (slots.path / "next").mkdir()
    (slots.path / "B").mkdir()
    (slots.path / "B" / IMAGE).symlink_to(tmp_path / "target")
    os.mkfifo(slots.path / "B/release")
    assert slots.choose() == [A, B], "a slot that would be started again and again is not on trial"
    assert slots.image("B") is None
    assert slots.read()[0]["B"] == "unknown"
    (slots.path / "B").rename(tmp_path / "elsewhere")
    (slots.path / "B").symlink_to(tmp_path / "elsewhere")
    assert slots.choose() == [A]


def test_the_watchdog_of_a_trial(slots: SlotFolder) -> None:
    assert (slots.count_down(), slots.open_watchdog()) == (None, None)
    slots.set_watchdog(armed=True)
    os.utime(slots.path / "watchdog", (0, 0))
    left, watchdog = slots.count_down(), slots.open_watchdog()
    assert left is not None
    assert left < 0
    assert watchdog is not None
    watchdog.feed()
    left = slots.count_down()
    assert left is not None
    assert 0 < left <= WATCHDOG_TIMEOUT
    os.utime(slots.path / "watchdog", (2**33, 2**33))
    assert slots.count_down() == WATCHDOG_TIMEOUT, "no node has its launcher wait longer"
    watchdog.disarm()
    watchdog.feed()
    assert slots.count_down() is None
    slots.set_watchdog(armed=True)
    slots.set_watchdog(armed=False)
    assert slots.count_down() is None


def test_the_cause_of_a_failed_boot(slots: SlotFolder) -> None:
    assert slots.read_cause() == ""
    slots.note_end("it hung\x1b[2J")
    slots.note_end("its PID 1 ended with signal SIGKILL")
    assert slots.read_cause() == "it hung?[2J"
    slots.erase_cause()
    assert slots.read_cause() == ""
