"""The static pods that the user wrote, each a file that the kubelet reads on its own.

One that Kubernetes finds invalid, which only the kubelet finds out, keeps it from that one alone.
"""

import hashlib
import json
from pathlib import Path

import trio

from talos.config.static_pods import MANIFESTS, UIDS
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Reconciler
from talos.resource.objects import to_plain
from talos.system.files import replace_durably


class StaticPodManifestsController(Reconciler):
    """StaticPod, the user's → files that the kubelet watches."""

    name = "k8s.StaticPodManifestsController"
    inputs = (Input(kinds.STATIC_POD),)

    def __init__(self, folder: Path = Path(MANIFESTS)) -> None:
        self._folder = folder

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write what is new or has changed, remove what nobody wants any more."""
        pods = {pod.metadata.id: pod.spec.pod for pod in await runtime.list(kinds.STATIC_POD)}
        files = {
            make_name(id_): json.dumps(to_plain(pod), sort_keys=True).encode()
            for id_, pod in pods.items()
            if id_ not in UIDS
        }
        await trio.to_thread.run_sync(write_files, self._folder, files)


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
