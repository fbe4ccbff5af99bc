"""Slots in folders: what is written where, and what a failure at any step leaves behind."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.disks.install.world import FolderTarget

from talos.system.block.layout import MIB
from talos.system.errors import UserError
from talos.upgrade.slots.grub import boot as module
from talos.upgrade.slots.grub.boot import UNREADABLE, BootPartition, SlotContent
from talos.upgrade.slots.grub.config import Entry, make_config, parse_config
from talos.upgrade.slots.grub.environment import Environment, make_environment, parse_environment

A = Entry(slot="A", version="v1.15.0", arguments=("pti=on",))
FILES = {"vmlinuz": b"kernel" * 100, "initramfs": b"0707" * 1000}


def make_content(version: str = "v1.16.0", slot: str = "B") -> SlotContent:
    def reader(data: bytes) -> Callable[[], Iterator[bytes]]:
        return lambda: iter([data[:7], data[7:]])

    return SlotContent(
        entry=Entry(slot=slot, version=version, arguments=("pti=on", "new")),
        files={name: reader(data + version.encode()) for name, data in FILES.items()},
        digests={name: hashlib.sha256(data + version.encode()).hexdigest() for name, data in FILES.items()},
    )


@pytest.fixture
def target(tmp_path: Path) -> FolderTarget:
    target = FolderTarget(tmp_path, MIB)
    root = target.root("BOOT")
    for folder in ("A", "grub"):
        (root / folder).mkdir(parents=True)
    for name in FILES:
        (root / "A" / name).write_bytes(b"old")
    (root / "grub/grub.cfg").write_text(make_config([A], "A"), encoding="ascii")
    return target


def list_all(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def read_versions(slots: BootPartition) -> tuple[dict[str, str], str]:
    """Those that can be booted, and the default slot."""
    found = slots.read()
    return {slot: entry.version for slot, entry in found.entries.items()}, found.default


def test_a_system_is_written_read_back_booted_once_and_made_the_default(target: FolderTarget) -> None:
    slots, root, lines = BootPartition(target), target.root("BOOT"), list[str]()
    before = list_all(root / "A")
    slots.write(make_content(), lines.append)
    assert lines == ["writing slot B", "reading slot B back"]
    assert target.mounted == ["BOOT", "BOOT ro", "BOOT", "BOOT", "BOOT"], (
        "it is unmounted before it is read back, and before its config gets its name"
    )
    assert read_versions(slots) == ({"A": "v1.15.0", "B": "v1.16.0"}, "A")
    assert (root / "B/vmlinuz").read_bytes() == FILES["vmlinuz"] + b"v1.16.0"
    slots.boot_once("B")
    assert b"\nnext_entry=B\n" in (root / "grub/grubenv").read_bytes()
    inode = (root / "grub/grubenv").stat().st_ino
    slots.boot_once("")
    assert b"\nnext_entry=\n" in (root / "grub/grubenv").read_bytes()
    assert (root / "grub/grubenv").stat().st_ino == inode, "GRUB's file is overwritten in place"
    slots.make_default("B")
    assert slots.read().default == "B"
    assert list_all(root / "A") == before
    slots.write(make_content("v1.17.0", "A"), lines.append)
    assert slots.read().default == "B"
    assert sorted(path.name for path in root.iterdir()) == ["A", "B", "grub"]


def test_garbage_in_the_environment_is_replaced(target: FolderTarget) -> None:
    path = target.root("BOOT") / "grub/grubenv"
    path.write_bytes(b"\xff" * 77)
    BootPartition(target).boot_once("B")
    assert path.stat().st_size == 1024


def test_the_default_slot_is_never_written(target: FolderTarget) -> None:
    before = list_all(target.root("BOOT"))
    with pytest.raises(UserError, match="slot A is the default"):
        BootPartition(target).write(make_content(slot="A"), lambda _: None)
    assert list_all(target.root("BOOT")) == before


def test_a_full_disk_leaves_everything_as_it_was(target: FolderTarget) -> None:
    def fail() -> Iterator[bytes]:
        yield b"begin"
        raise OSError(28, "No space left on device")

    slots = BootPartition(target)
    slots.write(make_content(), lambda _: None)
    before = list_all(target.root("BOOT"))
    content = make_content("v1.17.0")
    broken = SlotContent(
        entry=content.entry, files={**content.files, "initramfs": fail}, digests=content.digests
    )
    with pytest.raises(OSError, match="No space left"):
        slots.write(broken, lambda _: None)
    assert list_all(target.root("BOOT")) == before


def test_a_disk_that_reads_differently_keeps_the_old_slot(target: FolderTarget) -> None:
    slots = BootPartition(target)
    slots.write(make_content(), lambda _: None)
    before = list_all(target.root("BOOT"))
    content = make_content("v1.17.0")
    wrong = SlotContent(
        entry=content.entry, files=content.files, digests={**content.digests, "vmlinuz": "0" * 64}
    )
    with pytest.raises(UserError, match="vmlinuz reads differently"):
        slots.write(wrong, lambda _: None)
    assert list_all(target.root("BOOT")) == before


class PowerCutError(Exception):
    """The power is cut."""


def test_a_power_cut_at_any_change_leaves_the_default_bootable(
    target: FolderTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, before = target.root("BOOT"), list_all(target.root("BOOT") / "A")
    left = 0

    def cut(real: Callable[..., None]) -> Callable[..., None]:
        def call(*args: object, **more: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise PowerCutError
            real(*args, **more)

        return call

    for name in ("replace_durably", "flush_folder", "exchange"):
        monkeypatch.setattr(module, name, cut(getattr(module, name)))
    for point in range(1, 40):
        left = point
        try:
            BootPartition(target).write(make_content(f"v1.16.{point}"), lambda _: None)
        except PowerCutError:
            entries, default = parse_config((root / "grub/grub.cfg").read_text(encoding="ascii"))
            assert default == "A"
            assert A in entries
            assert list_all(root / "A") == before
        else:
            assert point > 4
            assert BootPartition(target).read().entries["B"].version == f"v1.16.{point}"
            return
    raise AssertionError("it never ends")


def test_a_foreign_config_is_refused(target: FolderTarget) -> None:
    (target.root("BOOT") / "grub/grub.cfg").write_text("hello", encoding="ascii")
    with pytest.raises(UserError, match=r"BOOT/grub/grub\.cfg: is not the installer's"):
        BootPartition(target).read()


def test_the_count_of_starts_is_set_back_and_what_is_booted_once_stays(target: FolderTarget) -> None:
    slots, path = BootPartition(target), target.root("BOOT") / "grub/grubenv"
    assert (slots.read().environment, slots.read().damage) == (Environment(), ""), "there is one slot"
    path.write_bytes(make_environment(Environment(next_slot="B", count=2)))
    inode = path.stat().st_ino
    target.mounted.clear()
    assert slots.read().environment.count == 2
    slots.reset_boot_count()
    assert target.mounted == ["BOOT ro", "BOOT"]
    assert parse_environment(path.read_bytes()) == Environment(next_slot="B")
    assert path.stat().st_ino == inode, "GRUB's file is overwritten in place"
    path.write_bytes(b"\xff" * 1024)
    assert slots.read().damage == "not an environment block of GRUB"
    slots.reset_boot_count()
    assert (slots.read().environment, slots.read().damage) == (Environment(), "")


def test_what_grub_wrote_to_one_half_of_a_mirror_is_true(target: FolderTarget) -> None:
    slots, path = BootPartition(target), target.root("BOOT") / "grub/grubenv"
    before = Environment(next_slot="B", by_trial_loader=True)
    path.write_bytes(make_environment(before))
    target.others = [make_environment(Environment(by_trial_loader=True))]
    found = slots.read()
    assert (found.environment.next_slot, found.is_equal) == ("", False), "one half has started it"
    target.others = [make_environment(Environment(next_slot="B", count=2, by_trial_loader=True))]
    assert slots.read().environment == Environment(next_slot="B", count=2, by_trial_loader=True)
    target.others = [b"\xff" * 1024]
    assert (slots.read().environment, slots.read().damage) == (
        before,
        "not an environment block of GRUB",
    ), "one half is enough"
    target.has_copies = False
    assert (slots.read().environment, slots.read().damage) == (before, UNREADABLE), "that of the array"
    target.has_copies = True
    target.others = [make_environment(Environment(count=1))]
    slots.reset_boot_count()
    assert parse_environment(path.read_bytes()) == Environment(by_trial_loader=True)
    target.others = [path.read_bytes()]
    assert slots.read().is_equal


@pytest.mark.parametrize("left", [b"garbage", None])
def test_a_lost_config_is_written_anew_with_the_slots_that_are_complete(
    target: FolderTarget, left: bytes | None
) -> None:
    slots, path = BootPartition(target), target.root("BOOT") / "grub/grub.cfg"
    path.unlink()
    if left is not None:
        path.write_bytes(left)
    b = make_content().entry
    slots.restore([A, b], "B")
    assert read_versions(slots) == ({"A": "v1.15.0"}, "A"), "slot B holds nothing"
    slots.write(make_content(), lambda _: None)
    path.unlink()
    slots.restore([A, b], "B")
    found = slots.read()
    assert (found.entries, found.default) == ({"A": A, "B": b}, "B")
    for slot in "AB":
        (target.root("BOOT") / slot / "vmlinuz").unlink()
    with pytest.raises(UserError, match="no slot holds a system"):
        slots.restore([A, b], "B")
