"""Waiting until the nodes of a new cluster have their services, and showing them."""

import asyncio
import time
from collections.abc import Callable, Sequence

from google.protobuf.empty_pb2 import Empty

from talos.api.machine.machine_pb2 import ServiceInfo, ServiceList, ServiceListResponse
from talos.config.talosconfig.model import Context
from talos.system.errors import UserError
from talos.talosctl.client.command import parts
from talos.talosctl.client.endpoint import parse_endpoint
from talos.talosctl.client.failure import describe
from talos.talosctl.client.fanout import Outcome, ask_nodes
from talos.talosctl.client.session import Session, open_session
from talos.talosctl.client.target import Target
from talos.talosctl.output import console
from talos.talosctl.output.table import format_table

PAUSE = 0.25
"""Seconds between two looks; nodes have no call that waits for services."""
NEEDED = ("machined", "containerd", "routerd", "apid", "networkd", "timed", "clusterd")
"""What every node must have to be managed. Kubernetes' parts come up on their own time."""

type Services = Sequence[tuple[str, Sequence[ServiceInfo]]]


def wait_for_services(
    context: Context, addresses: Sequence[str], seconds: float, report: Callable[[str], None]
) -> Services:
    """Wait until every node reports its own services healthy."""
    return asyncio.run(_wait(context, addresses, seconds, report))


async def _wait(
    context: Context, addresses: Sequence[str], seconds: float, report: Callable[[str], None]
) -> Services:
    # Each node by its own address: a worker can't be reached through its peers yet.
    targets = [
        Target(endpoints=(parse_endpoint(text),), nodes=(), ca=context.ca, crt=context.crt, key=context.key)
        for text in addresses
    ]
    end = time.monotonic() + seconds
    while True:
        outcomes = await asyncio.gather(*(_look(target) for target in targets))
        waiting = [
            line
            for outcome, target in zip(outcomes, targets, strict=True)
            for line in _unwell(outcome, target)
        ]
        if not waiting:
            return [(outcome.node, outcome.value or ()) for outcome in outcomes]
        report(waiting[0])
        if time.monotonic() > end:
            text = f"not well after {seconds:g} s: {'; '.join(waiting)}"
            raise UserError(text, hint="see talosctl cluster logs")
        await asyncio.sleep(PAUSE)


async def _look(target: Target) -> Outcome[list[ServiceInfo]]:
    async def ask(session: Session, node: str) -> list[ServiceInfo]:
        path = "/machine.MachineService/ServiceList"
        reply = await session.unary(node, path, Empty(), ServiceListResponse, timeout=5)
        return [service for part in parts(reply, ServiceList) for service in part.services]

    async with open_session(target) as session:
        outcome = (await ask_nodes(session, [""], ask))[0]
    return Outcome(node=target.endpoints[0].host, value=outcome.value, error=outcome.error)


def _unwell(outcome: Outcome[list[ServiceInfo]], target: Target) -> list[str]:
    if outcome.value is None:
        return [f"{outcome.node}: {describe(outcome.error, target) if outcome.error else 'no answer'}"]
    states = {service.id: service for service in outcome.value}
    return [
        f"{outcome.node}: {name} is {states[name].state if name in states else 'missing'}"
        for name in NEEDED
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
