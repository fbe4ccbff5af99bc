"""The kubelet's kubeconfig as a resource."""

import hashlib
from pathlib import Path

import trio
import trio.testing
from tests.unit.machined.controllers.running import running

from talos.api.definitions.v1alpha1_pb2 import ServiceSpec
from talos.machined.controllers.k8s.kubelet_kubeconfig import KubeletKubeconfigController
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState
from talos.system.files import replace_durably

FOLLOW_TIMEOUT = 5.0  # seconds


async def test_the_resource_follows_the_file(tmp_path: Path) -> None:
    path, state = tmp_path / "kubeconfig-kubelet", MemoryState()
    with trio.fail_after(FOLLOW_TIMEOUT):
        async with running(state, KubeletKubeconfigController(path)):
            await put(state, kinds.SERVICE, "kubelet", ServiceSpec(running=True))
            for text in (b"first", b"second"):
                await trio.to_thread.run_sync(replace_durably, path, [text])
                digest = hashlib.sha256(text).hexdigest()
                await wait_for(
                    state, *ids.KUBELET_KUBECONFIG, lambda one, digest=digest: one.spec.hash == digest
                )
            # One that is not of its cluster any more is removed before the next start.
            path.unlink()
            await put(state, kinds.SERVICE, "kubelet", ServiceSpec(running=True, healthy=True))
            while await state.list(kinds.KUBELET_KUBECONFIG):
                await trio.testing.wait_all_tasks_blocked(0.01)
