"""Which services a machine starts, by its config."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from talos.api.resource import config_pb2
from talos.machined.boot.phases.boot import choose_services
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.resource.state import State

MAIN = "version: v1alpha1\nmachine: {type: worker, token: t}\ncluster: {}\n"
CLUSTER = "---\n{apiVersion: v1alpha1, kind: KubeClusterConfig, clusterName: a, endpoint: 'https://a:6443'}\n"


@dataclass(frozen=True, slots=True)
class Machine:
    """As much of a machine as the choice looks at."""

    state: State
    platform: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(has_kernel=False))


@pytest.mark.parametrize(("text", "has_kubelet"), [(MAIN, False), (MAIN + CLUSTER, True)])
async def test_a_machine_without_a_cluster_has_no_kubelet(text: str, *, has_kubelet: bool) -> None:
    state = MemoryState()
    await put(state, *ids.MACHINE_CONFIG, config_pb2.MachineConfigSpec(yaml_marshalled=text.encode()))
    kind = config_pb2.MachineTypeSpec(machine_type=config_pb2.WORKER)
    await put(state, *ids.MACHINE_TYPE, kind)
    names = await choose_services(Machine(state))  # pyright: ignore[reportArgumentType]
    assert ("kubelet" in names) is has_kubelet
    assert "cri" in names
