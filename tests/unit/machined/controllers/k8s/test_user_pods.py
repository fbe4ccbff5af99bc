"""The static pods that the user wrote: each is a file, and no other pod is."""

import json
from pathlib import Path

import trio
import trio.testing
import yaml

from talos.api.definitions.k8s_pb2 import KubeletConfigSpec, StaticPodSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.config.static_pods import API_SERVER, MANIFESTS
from talos.machined.controllers.k8s.kubelet import make_configuration
from talos.machined.controllers.k8s.user_pods import UserPodController
from talos.resource import changes, ids, kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.resource.objects import to_plain, to_struct


def make_pod(name: str, image: str) -> dict[str, object]:
    metadata = {"name": name, "namespace": "kube-system"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": image}]},
    }


async def configure(state: MemoryState, *pods: dict[str, object]) -> None:
    """A config with pods in the main document, the first one in a document of its own."""
    main = {"version": "v1alpha1", "machine": {"type": "worker", "token": "x", "pods": list(pods[1:])}}
    document = {"apiVersion": "v1alpha1", "kind": "KubeStaticPodConfig", "name": "first", "pod": pods[0]}
    text = yaml.safe_dump_all([main, document])
    await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text.encode()))


def read(folder: Path) -> dict[str, tuple[str, int]]:
    """Images of pods, and inodes, by the files' names; nothing while files come and go."""
    try:
        found = [path for path in folder.iterdir() if not path.name.startswith(".")]
        return {
            path.name: (json.loads(path.read_bytes())["spec"]["containers"][0]["image"], path.stat().st_ino)
            for path in found
        }
    except FileNotFoundError:
        return {}


async def wait_for(folder: Path, *images: str) -> dict[str, int]:
    """Wait until there are files of these pods only; the inodes of the files."""
    while True:
        found = read(folder)
        if sorted(image for image, _ in found.values()) == sorted(images):
            return {file: inode for file, (_, inode) in found.items()}
        await trio.sleep(0.01)


async def test_each_of_the_users_pods_is_a_file_of_its_own(tmp_path: Path) -> None:
    state, folder = MemoryState(), tmp_path / "pods"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, [UserPodController(folder)])
        await trio.testing.wait_all_tasks_blocked()
        assert not read(folder)
        await configure(state, make_pod("a", "one"), make_pod("../../../x", "two"))
        first = await wait_for(folder, "one", "two")
        await changes.wait_for(state, kinds.STATIC_POD, "kube-system-../../../x", bool)
        found = {pod.id: to_plain(pod.spec.pod) for pod in await state.list(kinds.STATIC_POD)}
        assert found == {
            "first": make_pod("a", "one"),
            "kube-system-../../../x": make_pod("../../../x", "two"),
        }
        await configure(state, make_pod("a", "other"), make_pod("../../../x", "two"))
        again = await wait_for(folder, "other", "two")
        assert first.keys() == again.keys()
        assert len(first.items() & again.items()) == 1, "what is the same is written anew"
        await configure(state, make_pod("a", "other"))
        await wait_for(folder, "other")
        nursery.cancel_scope.cancel()


async def test_what_a_daemon_writes_is_never_a_file(tmp_path: Path) -> None:
    """The kubelet would run it as root; the ids that the config has are the config's all the same."""
    state, folder = MemoryState(), tmp_path / "pods"
    for id_ in (API_SERVER, "theirs", "first"):
        spec = StaticPodSpec(pod=to_struct(make_pod(id_, "foreign")))
        await put(state, kinds.STATIC_POD, id_, spec, owner="k8s.ControlPlaneStaticPodController")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, [UserPodController(folder)])
        await configure(state, make_pod("a", "one"))
        await wait_for(folder, "one")
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert [image for image, _ in read(folder).values()] == ["one"]
        nursery.cancel_scope.cancel()


def test_the_kubelet_reads_them() -> None:
    config = make_configuration(KubeletConfigSpec(), is_container=False, is_control_plane=False)
    assert to_plain(config)["staticPodPath"] == MANIFESTS
