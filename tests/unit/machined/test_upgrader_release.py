"""What the upgrader does with a release: which it refuses, and what it does with the boot loader in one."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.upgrade.releases import parse

from talos.machined.upgrade.image import Release
from talos.system.errors import UserError
from talos.upgrade.layer import Layer
from talos.upgrade.state import Phase

from .test_upgrader import BROKEN, World, make_world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


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
    world: World, tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    upgrader = await world.boot()
    release = make_release(tmp_path, **changes)
    with pytest.raises(UserError, match=f"image installer: .*{text}"):
        await upgrader.prepare(release)


async def test_on_trial_and_while_one_is_written_nothing_else_is(world: World, tmp_path: Path) -> None:
    await (await world.boot()).roll_back()
    upgrader = await world.boot()
    release = make_release(tmp_path)
    with pytest.raises(UserError, match=r"v1\.15\.1 is on trial"):
        await upgrader.prepare(release)
    await upgrader.bless()
    async with upgrader.lock():
        with pytest.raises(UserError, match="another installation/upgrade is already in progress"):
            upgrader.lock()


async def test_a_release_that_is_blessed_replaces_the_boot_loader_and_an_older_one_does_not(
    world: World,
) -> None:
    await (await world.boot()).roll_back()
    upgrader = await world.boot()
    assert world.slots.replaced == [], "on trial nothing is replaced"
    await upgrader.bless()
    assert world.slots.replaced == ["A"], "a trial that is cut short then is still one"
    world.slots.versions["A"] = "v1.14.0"
    await (await world.boot()).roll_back()
    await (await world.boot()).bless()
    assert (world.slots.default, world.slots.replaced) == ("A", ["A"])


async def test_a_boot_loader_that_is_not_replaced_is_no_reason_to_go_back(world: World) -> None:
    world.slots.failure = UserError("the first sector starts another", where="/dev/vda")
    await (await world.boot()).roll_back()
    upgrader = await world.boot()
    await upgrader.bless()
    assert (upgrader.current.phase, world.slots.default) == (Phase.BLESSED, "B")
    (line,) = [line for line in world.lines if "boot loader is not replaced" in line]
    assert "/dev/vda: the first sector starts another" in line


async def install(world: World, release: Release, *, force: bool = False) -> None:
    upgrader = await world.boot()
    await (await upgrader.prepare(release, force=force))(world.lines.append)


@pytest.mark.parametrize(("version", "loader"), [("v1.15.0", b"of v1.15.0"), ("v1.14.0", b"")])
async def test_a_release_is_tried_with_its_boot_loader_and_an_older_one_with_the_present(
    world: World, tmp_path: Path, version: str, loader: bytes
) -> None:
    await install(world, make_release(tmp_path, version=version), force=True)
    assert (world.slots.next, world.slots.loader) == ("B", loader)


async def test_a_boot_loader_that_does_not_come_up_is_the_reason(world: World, tmp_path: Path) -> None:
    await install(world, make_release(tmp_path))
    world.slots.loader = BROKEN
    upgrader = await world.boot()
    assert (upgrader.running, upgrader.current.phase) == ("A", Phase.REVERTED)
    reason = "v1.15.1 in slot B did not start: its boot loader did not come up; "
    assert upgrader.current.reason.startswith(reason)
    assert world.slots.ended == []
    await upgrader.confirm()
    assert (world.slots.ended, world.slots.has_failed_loader) == (["A"], False)


async def test_what_a_boot_loader_s_trial_leaves_is_removed_when_it_is_over(
    world: World, tmp_path: Path
) -> None:
    await install(world, make_release(tmp_path))
    upgrader = await world.boot()
    await upgrader.confirm()
    assert world.slots.ended == [], "on trial it stays"
    await upgrader.bless()
    assert world.slots.ended == ["A"], "before the slot is the default"


async def test_firmware_that_keeps_an_entry_is_no_reason_to_go_back(world: World) -> None:
    world.slots.failure = OSError(30, "Read-only file system")
    await (await world.boot()).roll_back()
    upgrader = await world.boot()
    await upgrader.bless()
    await upgrader.confirm()
    assert (upgrader.current.phase, world.slots.default) == (Phase.BLESSED, "B")
    assert any("can't be removed" in line and "Read-only" in line for line in world.lines)
