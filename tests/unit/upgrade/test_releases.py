"""What the upgrader does with a release: which it refuses, and what it does with the boot loader in one."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.upgrade.release.releases import parse

from talos.system.errors import UserError
from talos.system.version import get_version
from talos.upgrade import session as upgrader_module
from talos.upgrade.release.layer import Layer, Release
from talos.upgrade.release.manifest import ReleaseFile
from talos.upgrade.state import Phase

from .machine import BROKEN, Machine


def make_release(folder: Path, **changes: Any) -> Release:
    """What is loaded of a release, of which nothing is read."""
    manifest = parse(**{"version": "v1.15.1", **changes})
    return Release(name="installer", manifest=manifest, layer=Layer(path=folder, files={}, offsets={}))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"architecture": "arm64"}, "the release is for arm64, this machine is amd64"),
        ({"version": "v1.14.0"}, "is older than the running"),
        ({"minimum_version": "v1.99.0"}, r"can replace v1\.99\.0 or newer"),
        ({"features": []}, "lacks what this machine uses: ab-slots"),
    ],
)
async def test_a_release_that_must_not_replace_what_runs(
    machine: Machine, tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    upgrader = await machine.boot()
    release = make_release(tmp_path, **changes)
    with pytest.raises(UserError, match=f"image installer: .*{text}"):
        await upgrader.prepare(release)


@pytest.mark.parametrize(("built", "is_refused"), [(99, True), (100, False), (101, False)])
async def test_an_older_build_of_the_version_that_runs_is_refused(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: int, *, is_refused: bool
) -> None:
    """A server of images has older ones, too, and their signatures are right."""
    version = replace(get_version(), tag="v1.15.0", commit_time=100)
    monkeypatch.setattr(upgrader_module, "get_version", lambda: version)
    text = f"{built}\n".encode()
    (tmp_path / "layer").write_bytes(text)
    file = ReleaseFile(name="commit-time", size=len(text), sha256=hashlib.sha256(text).hexdigest())
    layer = Layer(path=tmp_path / "layer", files={file.name: file}, offsets={file.name: 0})
    release = Release(name="installer", manifest=parse(version="v1.15.0"), layer=layer)
    upgrader = await machine.boot()
    if is_refused:
        with pytest.raises(UserError, match=r"a build of 1970-01-01 00:01:39 UTC, the running v1\.15\.0"):
            await upgrader.check(release)
        await upgrader.check(release, force=True)
    else:
        await upgrader.check(release)


async def test_on_trial_and_while_one_is_written_nothing_else_is(machine: Machine, tmp_path: Path) -> None:
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    release = make_release(tmp_path)
    with pytest.raises(UserError, match=r"v1\.15\.1 is on trial"):
        await upgrader.prepare(release)
    await upgrader.bless()
    async with upgrader.lock():
        with pytest.raises(UserError, match="another installation/upgrade is already in progress"):
            upgrader.lock()


async def test_a_release_that_is_blessed_replaces_the_boot_loader_and_an_older_one_does_not(
    machine: Machine,
) -> None:
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    assert machine.slots.replaced == [], "on trial nothing is replaced"
    await upgrader.bless()
    assert machine.slots.replaced == ["A"], "a trial that is cut short then is still one"
    machine.slots.versions["A"] = "v1.14.0"
    await (await machine.boot()).roll_back()
    await (await machine.boot()).bless()
    assert (machine.slots.default, machine.slots.replaced) == ("A", ["A"])


async def test_a_boot_loader_that_is_not_replaced_is_no_reason_to_go_back(machine: Machine) -> None:
    machine.slots.failure = UserError("the first sector starts another", where="/dev/vda")
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    await upgrader.bless()
    assert (upgrader.current.phase, machine.slots.default) == (Phase.BLESSED, "B")
    (line,) = [line for line in machine.lines if "boot loader is not replaced" in line]
    assert "/dev/vda: the first sector starts another" in line


async def install(machine: Machine, release: Release, *, force: bool = False) -> None:
    upgrader = await machine.boot()
    await (await upgrader.prepare(release, force=force))(machine.lines.append)


@pytest.mark.parametrize(("version", "loader"), [("v1.15.0", b"of v1.15.0"), ("v1.14.0", b"")])
async def test_a_release_is_tried_with_its_boot_loader_and_an_older_one_with_the_present(
    machine: Machine, tmp_path: Path, version: str, loader: bytes
) -> None:
    await install(machine, make_release(tmp_path, version=version), force=True)
    assert (machine.slots.next, machine.slots.loader) == ("B", loader)


async def test_a_boot_loader_that_does_not_come_up_is_the_reason(machine: Machine, tmp_path: Path) -> None:
    await install(machine, make_release(tmp_path))
    machine.slots.loader = BROKEN
    upgrader = await machine.boot()
    assert (upgrader.running, upgrader.current.phase) == ("A", Phase.REVERTED)
    reason = "v1.15.1 in slot B did not start: its boot loader did not come up; "
    assert upgrader.current.reason.startswith(reason)
    assert machine.slots.ended == []
    await upgrader.confirm()
    assert (machine.slots.ended, machine.slots.has_failed_loader) == (["A"], False)


async def test_what_a_boot_loader_s_trial_leaves_is_removed_when_it_is_over(
    machine: Machine, tmp_path: Path
) -> None:
    await install(machine, make_release(tmp_path))
    upgrader = await machine.boot()
    await upgrader.confirm()
    assert machine.slots.ended == [], "on trial it stays"
    await upgrader.bless()
    assert machine.slots.ended == ["A"], "before the slot is the default"


async def test_firmware_that_keeps_an_entry_is_no_reason_to_go_back(machine: Machine) -> None:
    machine.slots.failure = OSError(30, "Read-only file system")
    await (await machine.boot()).roll_back()
    upgrader = await machine.boot()
    await upgrader.bless()
    await upgrader.confirm()
    assert (upgrader.current.phase, machine.slots.default) == (Phase.BLESSED, "B")
    assert any("can't be removed" in line and "Read-only" in line for line in machine.lines)
