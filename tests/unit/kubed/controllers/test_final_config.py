"""The settings of the control plane's programs with their arguments."""

import trio
import trio.testing

from talos.api.definitions.k8s_pb2 import (
    APIServerConfigSpec,
    ControllerManagerConfigSpec,
    SchedulerConfigSpec,
)
from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.kubed.controllers.final_config import ControlPlaneFinalController
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState


async def test_arguments_follow_the_settings() -> None:
    state = MemoryState()
    manager = ControllerManagerConfigSpec(
        enabled=True, pod_cid_rs=["10.244.0.0/16"], node_cidr_mask_size_i_pv4=25, node_cidr_mask_size_i_pv6=72
    )
    await put(state, *ids.CONTROLLER_MANAGER_CONFIG, manager)
    await put(state, *ids.SCHEDULER_CONFIG, SchedulerConfigSpec(enabled=False, image="scheduler"))
    await put(state, *ids.API_SERVER_CONFIG, APIServerConfigSpec(local_port=6443))
    root = KubernetesRootSpec(issuer_url="https://a:6443", api_audiences=["https://a:6443"])
    await put(state, *ids.KUBERNETES_ROOT_SECRET, root)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, [ControlPlaneFinalController()])
        await trio.testing.wait_all_tasks_blocked()
        manager.node_cidr_mask_size_i_pv4 = 26
        await put(state, *ids.CONTROLLER_MANAGER_CONFIG, manager)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    arguments = (await state.get(*ids.FINAL_CONTROLLER_MANAGER_CONFIG)).spec.args
    assert arguments[0] == "/usr/local/bin/kube-controller-manager"
    assert "--node-cidr-mask-size-ipv4=26" in arguments
    assert not any("mask-size-ipv6" in argument for argument in arguments)
    assert (await state.get(*ids.FINAL_SCHEDULER_CONFIG)).spec == SchedulerConfigSpec()
    server = (await state.get(*ids.FINAL_API_SERVER_CONFIG)).spec.args
    assert {"--secure-port=6443", "--service-account-issuer=https://a:6443"} <= {*server}
