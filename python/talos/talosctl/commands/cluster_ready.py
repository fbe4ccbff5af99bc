"""Bringing up a new cluster: wait for its services, begin its etcd, show what runs."""

import asyncio
import time
from collections.abc import Callable, Sequence

from google.protobuf.empty_pb2 import Empty

from talos.api.machine.machine_pb2 import (
    BootstrapRequest,
    BootstrapResponse,
    ServiceInfo,
    ServiceList,
    ServiceListResponse,
)
from talos.api.rpc import Code, RpcError
from talos.client.endpoint import parse_endpoint
from talos.client.failure import describe
from talos.client.session import Session, open_session
from talos.client.target import Target
from talos.config.talosconfig.model import Context
from talos.provision.cluster import ClusterInfo, Role
from talos.provision.progress import Progress
from talos.system.errors import UserError
from talos.talosctl.client.command import parts
from talos.talosctl.client.fanout import Outcome, call_nodes
from talos.talosctl.output import console
from talos.talosctl.output.table import format_table

POLL_INTERVAL = 0.25
"""Seconds between two checks; nodes have no call that waits for services."""
NEEDED = ("machined", "containerd", "routerd", "apid", "networkd", "timed", "clusterd")
"""What every node must have to be managed. Kubernetes' parts come up on their own time."""
ETCD = "etcd"
BOOTSTRAP_TIMEOUT = 30.0  # seconds

type Services = Sequence[tuple[str, Sequence[ServiceInfo]]]


def bring_up(
    context: Context, info: ClusterInfo, seconds: float, progress: Progress, *, has_images: bool
) -> Services:
    """Wait for the services of a new cluster's nodes, and begin its etcd on the first control plane node.

    Without images of the cluster's own, nodes get etcd's from the internet: that is not waited for.
    """
    end = time.monotonic() + seconds
    addresses = [str(node.address) for node in info.nodes]
    control_plane = [str(node.address) for node in info.nodes if node.role is Role.CONTROL_PLANE]
    progress.begin("waiting for the services")
    services = wait_for_services(context, addresses, seconds, progress.detail)
    if not control_plane:
        return services
    progress.begin("bootstrapping etcd")
    asyncio.run(bootstrap(make_target(context, control_plane[0]), end))
    if has_images:
        left = max(end - time.monotonic(), 1.0)
        wait_for_services(context, control_plane, left, progress.detail, (ETCD,))
    return wait_for_services(context, addresses, max(end - time.monotonic(), 1.0), progress.detail)


def wait_for_services(
    context: Context,
    addresses: Sequence[str],
    seconds: float,
    report: Callable[[str], None],
    needed: Sequence[str] = NEEDED,
) -> Services:
    """Wait until every node reports these services healthy."""
    return asyncio.run(_wait([make_target(context, text) for text in addresses], seconds, report, needed))


async def bootstrap(target: Target, end: float) -> None:
    """Begin the cluster's etcd on one control plane node, unless it has begun; UserError."""

    async def call(session: Session, node: str) -> None:
        path = "/machine.MachineService/Bootstrap"
        await session.unary(node, path, BootstrapRequest(), BootstrapResponse, timeout=BOOTSTRAP_TIMEOUT)

    while True:
        async with open_session(target) as session:
            error = (await call_nodes(session, [""], call))[0].error
        if error is None or (isinstance(error, RpcError) and error.code is Code.ALREADY_EXISTS):
            return
        is_early = isinstance(error, RpcError) and error.code is Code.FAILED_PRECONDITION
        if not is_early or time.monotonic() > end:
            raise UserError(f"etcd can't be bootstrapped: {describe(error, target)}")
        await asyncio.sleep(POLL_INTERVAL)


def make_target(context: Context, address: str) -> Target:
    """A node by its own address: a worker can't be reached through its peers yet."""
    endpoint = parse_endpoint(address)
    return Target(endpoints=(endpoint,), nodes=(), ca=context.ca, crt=context.crt, key=context.key)


async def _wait(
    targets: Sequence[Target], seconds: float, report: Callable[[str], None], needed: Sequence[str]
) -> Services:
    end = time.monotonic() + seconds
    while True:
        outcomes = await asyncio.gather(*(_fetch_services(target) for target in targets))
        waiting = [
            line
            for outcome, target in zip(outcomes, targets, strict=True)
            for line in _find_unhealthy(outcome, target, needed)
        ]
        if not waiting:
            return [(outcome.node, outcome.value or ()) for outcome in outcomes]
        report(waiting[0])
        if time.monotonic() > end:
            text = f"not healthy after {seconds:g} s: {'; '.join(waiting)}"
            raise UserError(text, hint="see talosctl cluster logs")
        await asyncio.sleep(POLL_INTERVAL)


async def _fetch_services(target: Target) -> Outcome[list[ServiceInfo]]:
    async def call(session: Session, node: str) -> list[ServiceInfo]:
        path = "/machine.MachineService/ServiceList"
        reply = await session.unary(node, path, Empty(), ServiceListResponse, timeout=5)
        return [service for part in parts(reply, ServiceList) for service in part.services]

    async with open_session(target) as session:
        outcome = (await call_nodes(session, [""], call))[0]
    return Outcome(node=target.endpoints[0].host, value=outcome.value, error=outcome.error)


def _find_unhealthy(outcome: Outcome[list[ServiceInfo]], target: Target, needed: Sequence[str]) -> list[str]:
    if outcome.value is None:
        return [f"{outcome.node}: {describe(outcome.error, target) if outcome.error else 'no answer'}"]
    states = {service.id: service for service in outcome.value}
    return [
        f"{outcome.node}: {name} is {states[name].state if name in states else 'missing'}"
        for name in needed
        if name not in states or states[name].state != "Running" or not states[name].health.healthy
    ]


def show_services(services: Services) -> None:
    """One table of all nodes' services."""
    rows = [("NODE", "SERVICE", "STATE", "HEALTH")]
    for node, list_ in services:
        for service in list_:
            health = "?" if service.health.unknown else "OK" if service.health.healthy else "Fail"
            rows.append((node, service.id, service.state, health))
    console.write(format_table(rows))
