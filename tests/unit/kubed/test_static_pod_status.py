"""The static pods as the kubelet has them."""

from typing import Any

import pytest
import trio
import trio.testing

from talos.api.common.common_pb2 import PEMEncodedCertificateAndKey
from talos.api.definitions.secrets_pb2 import KubernetesDynamicCertsSpec, KubernetesRootSpec
from talos.kubed.controllers.static_pod_status import POLL_INTERVAL, SOURCE, StaticPodStatusController
from talos.kubed.node_access import KubeletIdentity
from talos.kubed.rollout import POD_UID
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

POD: dict[str, Any] = {
    "metadata": {"namespace": "kube-system", "name": "server", "uid": "u1", "annotations": {SOURCE: "http"}},
    "spec": {},
    "status": {"phase": "Running"},
}


async def test_the_pods_are_known_as_soon_as_the_kubelet_has_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Till the next look, a change would not wait for the end of the version that it replaces."""

    def choose(*_: object) -> None:
        pass

    def read(_: object) -> list[dict[str, Any]]:
        return [POD]

    monkeypatch.setattr(StaticPodStatusController, "_choose", choose)
    monkeypatch.setattr(StaticPodStatusController, "_read", read)
    state, identity = MemoryState(), KubeletIdentity()
    await put(state, *ids.KUBERNETES_ROOT_SECRET, KubernetesRootSpec())
    pair = PEMEncodedCertificateAndKey(crt=b"crt", key=b"key")
    certificates = KubernetesDynamicCertsSpec(api_server_kubelet_client=pair)
    await put(state, *ids.KUBERNETES_DYNAMIC_CERT, certificates)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, [StaticPodStatusController(identity, Log())])
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not await state.list(kinds.STATIC_POD_STATUS)
        identity.set(b"pem", b"")
        with trio.fail_after(POLL_INTERVAL - 5):
            found = await wait_for(state, kinds.STATIC_POD_STATUS, "kube-system/server", lambda _: True)
        assert found.metadata.annotations[POD_UID] == "u1"
        nursery.cancel_scope.cancel()
