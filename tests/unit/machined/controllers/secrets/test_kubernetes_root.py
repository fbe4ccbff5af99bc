"""What a kubelet joins its cluster with."""

import pytest
from tests.unit.machined.controllers.running import running

from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.machined.controllers.secrets.kubernetes_root import KubeletSecretController
from talos.resource import ids
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState


@pytest.mark.parametrize("name", ["", "kube.example.org"])
async def test_a_kubelet_expects_the_name_of_the_config_behind_the_balancer(worker: str, name: str) -> None:
    config = worker.replace("kind: KubePrismConfig\n", f"kind: KubePrismConfig\ntlsServerName: '{name}'\n")
    assert config != worker
    state = MemoryState()
    await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=config.encode()))
    async with running(state, KubeletSecretController()):
        found = await wait_for(
            state, *ids.KUBELET_SECRET, lambda secret: bool(secret.spec.endpoint.full_path)
        )
    assert found.spec.endpoint.full_path == "https://127.0.0.1:7445"
    assert found.spec.endpoint_tls_server_name == name
