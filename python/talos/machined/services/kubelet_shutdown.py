"""The kubelet's graceful shutdown: it ends its pods itself, and reports why, before PID 1 ends it."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import trio

from talos.api.durations import parse_duration
from talos.api.internal.kubelet_pb2 import PrepareForShutdownRequest, PrepareForShutdownResponse
from talos.machined.node.ports.services import Services, ServiceState
from talos.machined.services.health import Connect
from talos.machined.services.kubelet import KUBELET
from talos.process.daemons import KUBED
from talos.resource import ids
from talos.resource.changes import teardown_and_destroy
from talos.resource.objects import to_plain
from talos.resource.state import NotFoundError, State
from talos.system.logging import Log

PREPARE = "/talos.internal.Kubelet/PrepareForShutdown"
MARGIN = 5.0
"""Seconds that the kubelet may take longer than what it gives its pods, and kubed than the kubelet."""
MAX_SHUTDOWN_DELAY = 20 * 60.0
"""Seconds that a user can have the kubelet give its pods."""
RELEASE_TIMEOUT = 30.0
"""Seconds for those who hold KubeletLifecycle, as upstream."""


async def shut_kubelet_down(connect: Connect, state: State, services: Services, log: Log) -> None:
    """Have the kubelet end its pods within the time of its config. RpcError, OSError."""
    await _release(state, log)
    if not any(one.id == KUBELET and one.state is ServiceState.RUNNING for one in services.list()):
        return
    spec = (await state.get(*ids.KUBELET_SPEC)).spec
    seconds = find_period(to_plain(spec.config)) + MARGIN
    request = PrepareForShutdownRequest(seconds=seconds)
    async with connect(KUBED.socket) as transport:
        reply = await transport.unary(PREPARE, request, PrepareForShutdownResponse, timeout=seconds + MARGIN)
    if reply.delayed_by:
        log.warning("the kubelet has not ended its pods in time", delayed_by=list(reply.delayed_by))


async def _release(state: State, log: Log) -> None:
    """Tear KubeletLifecycle down: who holds it has something to do before pods end."""
    with trio.move_on_after(RELEASE_TIMEOUT) as scope:
        try:
            await teardown_and_destroy(state, *ids.KUBELET_LIFECYCLE)
        except NotFoundError:
            return
    if scope.cancelled_caught:
        log.warning("KubeletLifecycle is still held", limit=f"{RELEASE_TIMEOUT:.0f} s")


def find_period(config: Mapping[str, Any]) -> float:
    """The seconds that a KubeletConfiguration gives pods at a shutdown; what is no number counts as 0."""
    by_priority = config.get("shutdownGracePeriodByPodPriority")
    if isinstance(by_priority, list) and by_priority:
        rows = cast("Sequence[object]", by_priority)
        found = [
            cast("Mapping[str, object]", row).get("shutdownGracePeriodSeconds")
            for row in rows
            if isinstance(row, Mapping)
        ]
        seconds = sum(float(number) for number in found if isinstance(number, int | float))
    else:
        try:
            seconds = parse_duration(str(config.get("shutdownGracePeriod", "0s")))
        except ValueError:
            seconds = 0.0
    return min(max(seconds, 0.0), MAX_SHUTDOWN_DELAY)
