"""MachineStatus: the stage, and whether the machine is ready or what is missing."""

from collections.abc import Callable

import trio
from google.protobuf.message import Message

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.runtime_pb2 import MachineStatusSpec, UnmetCondition
from talos.api.machine import machine_pb2 as pb
from talos.machined.node.stage import MachineStage
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.resource.objects import is_ready, to_plain
from talos.resource.state import NotFoundError

SERVICES = ("apid", "machined")
"""Services that a ready machine has."""


class MachineStatusController(Controller):
    """Writes MachineStatus and publishes every change as an event."""

    name = "runtime.MachineStatusController"
    inputs = (
        Input(kinds.SERVICE),
        Input(*ids.NETWORK_STATUS),
        Input(*ids.TIME_STATUS),
        Input(*ids.KUBELET_CONFIG),
        Input(*ids.KUBERNETES_ROOT_SECRET),
        Input(*ids.NODENAME),
        Input(kinds.NODE_STATUS),
        Input(kinds.STATIC_POD),
        Input(kinds.STATIC_POD_STATUS),
    )
    outputs = (Output(kinds.MACHINE_STATUS),)

    def __init__(self, stage: MachineStage, publish: Callable[[Message], object]) -> None:
        self._stage = stage
        self._publish = publish
        self._last: MachineStatusSpec | None = None

    async def run(self, runtime: ControllerRuntime) -> None:
        """Follow the inputs and the stage."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_stage, runtime)
            async for _ in runtime.events():
                await self._update(runtime)

    async def _follow_stage(self, runtime: ControllerRuntime) -> None:
        while True:
            await self._stage.wait_for_change()
            runtime.queue_reconcile()

    async def _update(self, runtime: ControllerRuntime) -> None:
        spec = MachineStatusSpec(stage=self._stage.value)
        unmet = [] if spec.stage == enums.MACHINE_STAGE_MAINTENANCE else await _find_unmet(runtime)
        spec.status.unmet_conditions.extend(unmet)
        spec.status.ready = not unmet
        if spec == self._last:
            return
        self._last = spec
        await runtime.put(*ids.MACHINE_STATUS, spec)
        self._publish(make_event(spec))


async def _find_unmet(runtime: ControllerRuntime) -> list[UnmetCondition]:
    unmet: list[UnmetCondition] = []
    try:
        if not (await runtime.get(*ids.TIME_STATUS)).spec.synced:
            unmet.append(UnmetCondition(name="time", reason="time is not in sync"))
    except NotFoundError:
        unmet.append(UnmetCondition(name="time", reason="the state of the time is not known yet"))
    try:
        network = (await runtime.get(*ids.NETWORK_STATUS)).spec
        missing = [
            name
            for name, is_there in (
                ("address", network.address_ready),
                ("connectivity", network.connectivity_ready),
                ("hostname", network.hostname_ready),
                ("etc files", network.etc_files_ready),
            )
            if not is_there
        ]
    except NotFoundError:
        missing = ["status"]
    if missing:
        unmet.append(UnmetCondition(name="network", reason=f"waiting on: {', '.join(missing)}"))
    services = {resource.id: resource.spec for resource in await runtime.list(kinds.SERVICE)}
    for name in sorted({*services, *SERVICES}):
        service = services.get(name)
        if service is None or not service.running:
            unmet.append(UnmetCondition(name="services", reason=f'service "{name}" is not running'))
        elif not service.unknown and not service.healthy:
            unmet.append(UnmetCondition(name="services", reason=f'service "{name}" is not healthy'))
    kubelet = await runtime.get_or_none(*ids.KUBELET_CONFIG)
    if kubelet is not None and not kubelet.spec.skip_node_registration:
        checks = {"staticPods": await check_static_pods(runtime), "nodeReady": await check_node(runtime)}
        unmet += [UnmetCondition(name=name, reason=reason) for name, reason in checks.items() if reason]
    return unmet


async def check_static_pods(runtime: ControllerRuntime) -> str:
    """Which static pod is not ready; a worker does not get to see how its own are."""
    if await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET) is None:
        return ""
    nodename = await runtime.get_or_none(*ids.NODENAME)
    if nodename is None:
        return "the node has no name yet"
    statuses = {found.id: found.spec for found in await runtime.list(kinds.STATIC_POD_STATUS)}
    waiting: list[str] = []
    for pod in await runtime.list(kinds.STATIC_POD):
        metadata = to_plain(pod.spec.pod)["metadata"]
        name = f"{metadata.get('namespace', 'default')}/{metadata['name']}-{nodename.spec.nodename}"
        status = statuses.pop(name, None)
        if status is None:
            waiting.append(f'pod "{name}" is not running')
        elif not is_ready(to_plain(status.pod_status)):
            waiting.append(f'pod "{name}" is not ready')
    return ", ".join(waiting)


async def check_node(runtime: ControllerRuntime) -> str:
    """Why the node is not ready in Kubernetes."""
    nodename = await runtime.get_or_none(*ids.NODENAME)
    if nodename is None:
        return "the node has no name yet"
    name = nodename.spec.nodename
    status = await runtime.get_or_none(kinds.NODE_STATUS, name)
    if status is None:
        return f'node "{name}" status is not available yet'
    return "" if status.spec.node_ready else f'node "{name}" is not ready'


def make_event(spec: MachineStatusSpec) -> pb.MachineStatusEvent:
    """The status as an event, whose stages have the same numbers."""
    event = pb.MachineStatusEvent(stage=pb.MachineStatusEvent.MachineStage.Name(spec.stage))
    event.status.ready = spec.status.ready
    for condition in spec.status.unmet_conditions:
        event.status.unmet_conditions.add(name=condition.name, reason=condition.reason)
    return event
