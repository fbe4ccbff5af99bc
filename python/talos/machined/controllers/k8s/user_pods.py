"""The static pods that the user wrote: resources, and each a file that the kubelet reads on its own.

One that Kubernetes finds invalid, which only the kubelet finds out, keeps it from that one alone. The kubelet
runs what is in the folder with all that a pod may request: PID 1 takes it from the config only.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import trio

from talos.api.definitions.k8s_pb2 import StaticPodSpec
from talos.config.active import read_config
from talos.config.documents.kubernetes.static_pod import KubeStaticPodConfig
from talos.config.model import Config
from talos.config.static_pods import MANIFESTS
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.objects import to_plain, to_struct
from talos.system.files import replace_durably


class UserPodController(Reconciler):
    """MachineConfig → StaticPod, and files that the kubelet watches."""

    name = "k8s.StaticPodConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.STATIC_POD, shared=True),)

    def __init__(self, folder: Path = Path(MANIFESTS)) -> None:
        self._folder = folder

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write what is new or has changed, remove what is not configured any more."""
        config = await read_config(runtime)
        structs = {id_: to_struct(pod) for id_, pod in find_pods(config).items()} if config else {}
        files = {
            make_name(id_): json.dumps(to_plain(pod), sort_keys=True).encode() for id_, pod in structs.items()
        }
        # First what counts: a resource of that id may be another's.
        await trio.to_thread.run_sync(write_files, self._folder, files)
        async with runtime.track_outputs():
            for id_, pod in structs.items():
                await runtime.put(kinds.STATIC_POD, id_, StaticPodSpec(pod=pod))


def find_pods(config: Config) -> dict[str, Mapping[str, object]]:
    """The pods of a config by the ids of their resources."""
    found: dict[str, Mapping[str, object]] = {
        document.name: dict(document.pod) for document in config.find_all(KubeStaticPodConfig) if document.pod
    }
    for pod in (config.machine.pods if config.machine else None) or ():
        metadata: Mapping[str, object] = dict(pod).get("metadata", {})
        found[f"{metadata.get('namespace') or 'default'}-{metadata.get('name')}"] = dict(pod)
    return found


def make_name(id_: str) -> str:
    """The file of a resource, whose id may be any text; to the kubelet a file is a pod."""
    return f"{hashlib.sha256(id_.encode()).hexdigest()[:32]}.json"


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    """Make a folder hold these files; those that are the same are left alone. OSError."""
    if not files and not folder.exists():
        return
    folder.mkdir(mode=0o700, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in files:
            path.unlink()
    for name, content in files.items():
        path = folder / name
        if not path.exists() or path.read_bytes() != content:
            replace_durably(path, [content], mode=0o600)
