"""The files of the static pods that the user wrote."""

import json
from pathlib import Path

import trio
import trio.testing

from talos.api.definitions.k8s_pb2 import KubeletConfigSpec, StaticPodSpec
from talos.config.static_pods import API_SERVER, MANIFESTS
from talos.kubed.controllers.kubelet import make_configuration
from talos.machined.controllers.k8s.static_pod_manifests import StaticPodManifestsController
from talos.resource import kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.resource.objects import to_plain, to_struct


async def add(state: MemoryState, id_: str, name: str) -> None:
    pod = to_struct({"metadata": {"name": name}})
    await put(state, kinds.STATIC_POD, id_, StaticPodSpec(pod=pod))


def read(folder: Path) -> dict[str, tuple[str, int]]:
    """Names of pods, and inodes, by the files' names; nothing while files come and go."""
    try:
        found = [path for path in folder.iterdir() if not path.name.startswith(".")]
        return {
            path.name: (json.loads(path.read_bytes())["metadata"]["name"], path.stat().st_ino)
            for path in found
        }
    except FileNotFoundError:
        return {}


async def wait_for(folder: Path, *names: str) -> dict[str, int]:
    """Wait until there are files of these pods only; the inodes of the files."""
    with trio.fail_after(60):
        while True:
            found = read(folder)
            if sorted(name for name, _ in found.values()) == sorted(names):
                return {file: inode for file, (_, inode) in found.items()}
            await trio.sleep(0.01)


async def test_each_of_the_users_pods_is_a_file_of_its_own(tmp_path: Path) -> None:
    state, folder = MemoryState(), tmp_path / "pods"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, [StaticPodManifestsController(folder)])
        await trio.testing.wait_all_tasks_blocked()
        assert not read(folder)
        await add(state, API_SERVER, API_SERVER)
        await add(state, "one", "one")
        await add(state, "kube-system-../../../x", "two")
        first = await wait_for(folder, "one", "two")
        await add(state, "one", "other")
        again = await wait_for(folder, "other", "two")
        assert first.keys() == again.keys()
        assert len(first.items() & again.items()) == 1, "what is the same is written anew"
        await state.destroy(kinds.STATIC_POD, "one")
        await wait_for(folder, "two")
        nursery.cancel_scope.cancel()


def test_the_kubelet_reads_them() -> None:
    config = make_configuration(KubeletConfigSpec(), is_container=False, is_control_plane=False)
    assert to_plain(config)["staticPodPath"] == MANIFESTS
