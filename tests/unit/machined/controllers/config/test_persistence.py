"""The machine config on the disk."""

from pathlib import Path

import pytest
import trio
from tests.unit.machined.controllers.running import mount_state, running

from talos.machined.controllers.config.persistence import PersistenceController
from talos.machined.node.config_store import publish_config
from talos.resource import ids
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.mounts import KernelMounts, MountPoint

LOG = Log(write=lambda _: None)


def check_folder(folder: Path) -> None:
    (file,) = folder.iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("config.yaml", 0o600)


async def wait_for_text(path: Path, text: bytes) -> None:
    while not path.exists() or path.read_bytes() != text:  # noqa: ASYNC110,ASYNC240 - a file has no event
        await trio.sleep(0.01)


async def test_the_config_reaches_state_when_that_comes(tmp_path: Path) -> None:
    state, file = MemoryState(), tmp_path / "config.yaml"
    async with running(state, PersistenceController(LOG)):
        await publish_config(state, ids.MACHINE_CONFIG_PERSISTENT, b"first: 1\n")
        await mount_state(state, tmp_path)
        await wait_for_text(file, b"first: 1\n")
        await publish_config(state, ids.MACHINE_CONFIG_PERSISTENT, b"second: 2\n")
        await wait_for_text(file, b"second: 2\n")
    check_folder(tmp_path)


@pytest.mark.root
async def test_a_full_state_keeps_the_old_config_until_there_is_room(tmp_path: Path) -> None:
    mounts, state, folder = KernelMounts(), MemoryState(), tmp_path / "state"
    mounts.mount(MountPoint(source="tmpfs", target=str(folder), type="tmpfs", data="size=64k,mode=0700"))
    try:
        async with running(state, PersistenceController(LOG)):
            await publish_config(state, ids.MACHINE_CONFIG_PERSISTENT, b"old: 1\n")
            await mount_state(state, folder)
            await wait_for_text(folder / "config.yaml", b"old: 1\n")
            (folder / "ballast").write_bytes(bytes(56 * 1024))
            new = b"new: " + b"x" * 20000 + b"\n"
            await publish_config(state, ids.MACHINE_CONFIG_PERSISTENT, new)
            await trio.sleep(0.3)
            assert (folder / "config.yaml").read_bytes() == b"old: 1\n"
            assert sorted(path.name for path in folder.iterdir()) == ["ballast", "config.yaml"]
            (folder / "ballast").unlink()
            await wait_for_text(folder / "config.yaml", new)
    finally:
        mounts.unmount(str(folder))
