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


def read(folder: Path) -> dict[str, str]:
    """Names of pods by those of files."""
    return {path.name: json.loads(path.read_bytes())["metadata"]["name"] for path in sorted(folder.iterdir())}


async def test_each_of_the_users_pods_is_a_file_of_its_own(tmp_path: Path) -> None:
    state, folder = MemoryState(), tmp_path / "pods"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, [StaticPodManifestsController(folder)])
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not folder.exists()
        await add(state, API_SERVER, API_SERVER)
        await add(state, "one", "one")
        await add(state, "default-../../../x", "two")
        await trio.testing.wait_all_tasks_blocked(0.05)
        names = read(folder)
        assert sorted(names.values()) == ["one", "two"]
        first = {path.name: path.stat().st_ino for path in folder.iterdir()}
        await add(state, "one", "other")
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert sorted(read(folder).values()) == ["other", "two"]
        assert read(folder).keys() == names.keys()
        again = {path.name: path.stat().st_ino for path in folder.iterdir()}
        assert len(first.items() & again.items()) == 1, "what is the same is written anew"
        await state.destroy(kinds.STATIC_POD, "one")
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert list(read(folder).values()) == ["two"]
        nursery.cancel_scope.cancel()


def test_the_kubelet_reads_them() -> None:
    config = make_configuration(KubeletConfigSpec(), is_container=False, is_control_plane=False)
    assert to_plain(config)["staticPodPath"] == MANIFESTS
