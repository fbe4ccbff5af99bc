"""Filters of system calls for pods are files of their names."""

import json
from collections.abc import Callable
from pathlib import Path

import trio
import trio.testing
from tests.unit.machined.controllers.running import running

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.block_pb2 import VolumeMountStatusSpec, VolumeStatusSpec
from talos.config.check.validate import Mode, validate
from talos.config.read.loader import load
from talos.machined.controllers.cri.seccomp_profile import (
    SeccompProfileController,
    SeccompProfileFileController,
    write_profiles,
)
from talos.machined.node.config_store import publish_config
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState

CONFIG = """\
version: v1alpha1
machine: {type: worker, seccompProfiles: [%s]}
cluster: {}
"""
AUDIT = "{name: audit.json, value: {defaultAction: SCMP_ACT_LOG}}"


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - files have no event
        await trio.sleep(0.01)


async def test_profiles_are_written_and_others_removed(tmp_path: Path) -> None:
    folder, state = tmp_path / "seccomp/profiles", MemoryState()
    await publish_config(state, ids.MACHINE_CONFIG, (CONFIG % AUDIT).encode())
    async with running(state, SeccompProfileController(), SeccompProfileFileController(folder)):
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not folder.exists()
        mount = VolumeMountStatusSpec(volume_id="EPHEMERAL", target="/var")
        await put(state, kinds.VOLUME_MOUNT_STATUS, "sequencer-EPHEMERAL", mount)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not folder.exists(), "the kubelet's volume is not there"
        await put(state, kinds.VOLUME_STATUS, "KUBELET", VolumeStatusSpec(phase=enums.VOLUME_PHASE_READY))
        await until((folder / "audit.json").exists)
        assert json.loads((folder / "audit.json").read_text()) == {"defaultAction": "SCMP_ACT_LOG"}
        assert (folder / "audit.json").stat().st_mode & 0o777 == 0o644
        (folder / "old.json").write_text("{}")
        changed = CONFIG % AUDIT.replace("audit", "other")
        await publish_config(state, ids.MACHINE_CONFIG, changed.encode())
        await until(lambda: [path.name for path in folder.iterdir()] == ["other.json"])


def test_a_name_that_is_a_path_is_refused() -> None:
    config = load(CONFIG % "{name: ../x, value: {}}")
    errors = [str(problem) for problem in validate(config, Mode.METAL).errors]
    assert any('machine.seccompProfiles[0].name: "../x" is no name of a file' in text for text in errors)


def test_links_that_pods_have_left_are_not_followed(tmp_path: Path) -> None:
    secrets, folder = tmp_path / "secrets", tmp_path / "kubelet/seccomp/profiles"
    secrets.mkdir()
    (secrets / "key").write_text("key")
    folder.parent.mkdir(parents=True)
    folder.symlink_to(secrets)
    write_profiles(folder, {"a.json": b"{}"})
    assert [path.name for path in secrets.iterdir()] == ["key"]
    assert (folder / "a.json").read_bytes() == b"{}"
    (folder / "a.json").unlink()
    (folder / "a.json").symlink_to("/dev/zero")
    (folder / "other").symlink_to(secrets)
    write_profiles(folder, {"a.json": b"{}"})
    assert not (folder / "a.json").is_symlink()
    assert [path.name for path in folder.iterdir()] == ["a.json"]
    folder.rename(folder.with_name("before"))
    folder.symlink_to(secrets)
    write_profiles(folder, {})
    assert [path.name for path in secrets.iterdir()] == ["key"]
    write_profiles(tmp_path / "none", {})
    assert not (tmp_path / "none").exists()
