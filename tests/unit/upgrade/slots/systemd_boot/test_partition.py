"""Slots that systemd-boot starts: what is written, and what is started wherever the power is cut."""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.disks.install.world import FolderTarget
from tests.unit.pki.programs import make_uki

from talos.system.block.layout import MIB
from talos.system.efi_variables import EfiVariables
from talos.system.errors import UserError
from talos.upgrade.slots.systemd_boot.partition import EfiPartition, SlotContent

from .loader import Loader, Start, make_variables

OLD, NEW = make_uki("v1.15.0"), make_uki("v1.15.3")
SETTINGS = "timeout 3\nsecure-boot-enroll if-safe\n"


def make_content(data: bytes = NEW, slot: str = "B") -> SlotContent:
    def read() -> Iterator[bytes]:
        yield from (data[:7], data[7:])

    return SlotContent(slot=slot, read=read, digest=hashlib.sha256(data).hexdigest())


@pytest.fixture
def slots(tmp_path: Path) -> EfiPartition:
    return make_slots(tmp_path)


def make_slots(folder: Path) -> EfiPartition:
    """A system in slot A."""
    target = FolderTarget(folder, MIB)
    root = target.root("EFI")
    for name in ("EFI/Linux", "loader"):
        (root / name).mkdir(parents=True)
    (root / "EFI/Linux/talos-a.efi").write_bytes(OLD)
    (root / "loader/loader.conf").write_text(f"{SETTINGS}default talos-a.efi\n")
    return EfiPartition(target, make_variables(folder / "variables"))


def find_root(slots: EfiPartition) -> Path:
    assert isinstance(slots.target, FolderTarget)
    return slots.target.root("EFI")


def make_loader(slots: EfiPartition) -> Loader:
    return Loader(find_root(slots), slots.variables)


def list_images(slots: EfiPartition) -> list[str]:
    return sorted(path.name for path in (find_root(slots) / "EFI/Linux").iterdir())


def stage(slots: EfiPartition, content: SlotContent | None = None) -> None:
    content = content or make_content()
    slots.write(content, lambda _: None)
    slots.boot_once(content.slot)


def test_an_upgrade_is_tried_once_and_becomes_the_default(slots: EfiPartition) -> None:
    lines: list[str] = []
    slots.write(make_content(), lines.append)
    assert lines == ["writing slot B", "reading slot B back"]
    assert isinstance(slots.target, FolderTarget)
    assert slots.target.mounted == ["EFI", "EFI ro", "EFI"], "it is unmounted before it is read back"
    found = slots.read()
    assert (found.versions, found.default) == ({"A": "v1.15.0", "B": "v1.15.3"}, "A")
    loader = make_loader(slots)
    assert loader.start() == Start("A", OLD, is_trial=False), "nothing has chosen the new one yet"
    slots.boot_once("B")
    assert loader.start() == Start("B", NEW, is_trial=True)
    assert slots.read().default == "A"
    slots.make_default("B")
    assert list_images(slots) == ["talos-a.efi", "talos-b.efi"]
    assert (find_root(slots) / "loader/loader.conf").read_text() == f"{SETTINGS}default talos-b.efi\n"
    assert loader.start() == Start("B", NEW, is_trial=False)
    assert loader.start() == Start("B", NEW, is_trial=False)


def test_a_trial_without_a_verdict_is_over_at_the_next_start(slots: EfiPartition) -> None:
    stage(slots)
    loader = make_loader(slots)
    assert loader.start() == Start("B", NEW, is_trial=True)
    for _ in range(2):
        assert loader.start() == Start("A", OLD, is_trial=False)
    stage(slots, make_content(make_uki("v1.15.4")))
    assert list_images(slots) == ["talos-a.efi", "talos-b.efi"]
    assert loader.start() == Start("B", make_uki("v1.15.4"), is_trial=True)


def test_what_was_staged_is_taken_back(slots: EfiPartition) -> None:
    stage(slots)
    slots.boot_once("")
    assert make_loader(slots).start() == Start("A", OLD, is_trial=False)


def test_firmware_without_room_for_a_variable(slots: EfiPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: EfiVariables, name: str, value: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    reason = "LoaderEntryOneShot: the firmware does not keep this variable: No space left on device"
    with monkeypatch.context() as patched:
        patched.setattr(EfiVariables, "make", fail)
        with pytest.raises(UserError, match=reason):
            stage(slots)
    assert make_loader(slots).start() == Start("A", OLD, is_trial=False)


def test_back_to_the_older_system(slots: EfiPartition) -> None:
    stage(slots)
    loader = make_loader(slots)
    loader.start()
    slots.make_default("B")
    slots.boot_once("A")
    assert loader.start() == Start("A", OLD, is_trial=True)
    slots.make_default("A")
    assert loader.start() == Start("A", OLD, is_trial=False)


def test_what_a_person_chose_at_the_menu_ends_with_the_next_verdict(slots: EfiPartition) -> None:
    stage(slots)
    make_loader(slots).start()
    slots.variables.make("LoaderEntryDefault", "talos-a*\0".encode("utf-16-le"))
    slots.make_default("B")
    assert make_loader(slots).start() == Start("B", NEW, is_trial=False)


def test_nothing_is_written_when_nothing_changes(slots: EfiPartition) -> None:
    """Each boot confirms its default."""
    root = find_root(slots)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    slots.make_default("A")
    slots.boot_once("")
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_the_default_is_never_written(slots: EfiPartition) -> None:
    with pytest.raises(UserError, match="slot A is the default"):
        slots.write(make_content(slot="A"), lambda _: None)
    assert make_loader(slots).start() == Start("A", OLD, is_trial=False)


def test_a_slot_that_holds_nothing(slots: EfiPartition) -> None:
    with pytest.raises(UserError, match="slot B holds no system"):
        slots.make_default("B")
    slots.boot_once("B")
    assert make_loader(slots).start() == Start("A", OLD, is_trial=False)


@pytest.mark.parametrize("kind", ["full", "broken"])
def test_after_an_error_the_slot_has_what_it_had(slots: EfiPartition, kind: str) -> None:
    stage(slots)
    make_loader(slots).start()
    slots.make_default("A")
    before = list_images(slots)

    def fail() -> Iterator[bytes]:
        yield b"begin"
        raise OSError(errno.ENOSPC, "No space left on device")

    content = make_content(make_uki("v1.15.4"))
    wrong = SlotContent(slot="B", read=fail if kind == "full" else content.read, digest="0" * 64)
    with pytest.raises((UserError, OSError), match=r"No space left|reads differently"):
        slots.write(wrong, lambda _: None)
    assert list_images(slots) == before
    assert slots.read().versions == {"A": "v1.15.0", "B": "v1.15.3"}


@pytest.mark.parametrize("text", [None, "", "timeout 3\n", "default windows\n", "default\n", "\xff\0"])
def test_settings_that_were_lost(slots: EfiPartition, text: str | None) -> None:
    path = find_root(slots) / "loader/loader.conf"
    path.unlink()
    if text is not None:
        path.write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=r"EFI/loader/loader\.conf: is not the installer's"):
        slots.read()
    slots.restore("B")
    assert slots.read().default == "A", "slot B holds nothing"
    (find_root(slots) / "EFI/Linux/talos-a.efi").write_bytes(b"torn")
    with pytest.raises(UserError, match="no slot holds a system"):
        slots.restore("A")


class PowerCutError(Exception):
    """The power is cut."""


def count_changes(monkeypatch: pytest.MonkeyPatch, cut_at: int) -> list[int]:
    """Cut the power instead of a change of a name, of a file's content, or of what is flushed."""
    done = [0]

    def guard(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            done[0] += 1
            if done[0] == cut_at:
                raise PowerCutError
            return real(*args, **more)

        return call

    for owner, name in ((Path, "rename"), (Path, "replace"), (Path, "unlink"), (os, "fsync"), (os, "open")):
        monkeypatch.setattr(owner, name, guard(getattr(owner, name)))
    return done


def upgrade(slots: EfiPartition) -> None:
    """All of an upgrade: staged, tried, made the default."""
    stage(slots)
    start = make_loader(slots).start()
    assert start == Start("B", NEW, is_trial=True)
    slots.make_default("B")


def roll_back(slots: EfiPartition) -> None:
    """Back, and the trial reverted at once."""
    slots.boot_once("A")
    slots.boot_once("")


@pytest.mark.parametrize("work", [upgrade, roll_back])
def test_a_power_cut_anywhere_leaves_a_system_and_the_way_back(
    tmp_path: Path, work: Callable[[EfiPartition], None]
) -> None:
    systems = {"A": OLD, "B": NEW}
    for point in range(1, 200):
        slots = make_slots(tmp_path / str(point))
        if work is roll_back:
            upgrade(slots)
        with pytest.MonkeyPatch.context() as patch:
            count_changes(patch, point)
            try:
                work(slots)
            except PowerCutError:
                is_cut = True
            else:
                is_cut = False
        loader, default = make_loader(slots), slots.read().default
        start = loader.start()
        assert start is not None, f"nothing is started after a power cut at {point}"
        assert start.content == systems[start.slot]
        if start.is_trial:
            start = loader.start()
        assert start is not None
        assert start == Start(default, systems[default], is_trial=False), point
        if not is_cut:
            assert point > 3
            return
        # As the boot confirms it; then the next upgrade works.
        slots.make_default(default)
        assert loader.start() == start, "a system without a verdict is the default"
        other = "B" if start.slot == "A" else "A"
        stage(slots, make_content(make_uki("v1.15.9"), other))
        assert loader.start() == Start(other, make_uki("v1.15.9"), is_trial=True), point
        slots.make_default(other)
        assert loader.start() == Start(other, make_uki("v1.15.9"), is_trial=False), point
    raise AssertionError("it never ends")
