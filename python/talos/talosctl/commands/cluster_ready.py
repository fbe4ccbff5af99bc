"""Waiting until the nodes of a new cluster have their services, and showing them."""

import asyncio
import time
from collections.abc import Callable, Sequence

from google.protobuf.empty_pb2 import Empty

from talos.api.machine.machine_pb2 import ServiceInfo, ServiceList, ServiceListResponse
from talos.config.talosconfig import Context
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
RUNNING = ("Running", "Finished", "Skipped")
"""States of a service that is where it should be."""

type Services = Sequence[tuple[str, Sequence[ServiceInfo]]]


def wait_for_services(
    context: Context, addresses: Sequence[str], seconds: float, tell: Callable[[str], None]
) -> Services:
    """Wait until every node says that its services are well."""
    return asyncio.run(_wait(context, addresses, seconds, tell))


async def _wait(
    context: Context, addresses: Sequence[str], seconds: float, tell: Callable[[str], None]
) -> Services:
    end = time.monotonic() + seconds
    told = ""
    while True:
        outcomes = [await _look(context, address) for address in addresses]
        waiting = [line for outcome in outcomes for line in _unwell(outcome)]
        if not waiting:
            return [(outcome.node, outcome.value or ()) for outcome in outcomes]
        if waiting[0] != told:
            told = waiting[0]
            tell(told)
        if time.monotonic() > end:
            raise UserError(
                f"not well after {seconds:g} s: {'; '.join(waiting)}", hint="see talosctl cluster logs"
            )
        await asyncio.sleep(PAUSE)


def _target(context: Context, address: str) -> Target:
    # Each node by its own address: no peer is needed to reach it.
    return Target(
        endpoints=(parse_endpoint(address),), nodes=(), ca=context.ca, crt=context.crt, key=context.key
    )


async def _look(context: Context, address: str) -> Outcome[list[ServiceInfo]]:
    async def ask(session: Session, node: str) -> list[ServiceInfo]:
        reply = await session.unary(
            node, "/machine.MachineService/ServiceList", Empty(), ServiceListResponse, timeout=5
        )
        return [service for part in parts(reply, ServiceList) for service in part.services]

    target = _target(context, address)
    async with open_session(target) as session:
        outcome = (await ask_nodes(session, [""], ask))[0]
    if outcome.error is not None:
        # Said here, while it is known which endpoint was asked.
        outcome.error.add_note(describe(outcome.error, target))
    return Outcome(node=address, value=outcome.value, error=outcome.error)


def _unwell(outcome: Outcome[list[ServiceInfo]]) -> list[str]:
    if outcome.value is None:
        assert outcome.error is not None
        return [f"{outcome.node}: {' '.join(outcome.error.__notes__)}"]
    return [
        f"{outcome.node}: {service.id} is {service.state}{'' if is_well(service) else ', not healthy'}"
        for service in outcome.value
        if service.state not in RUNNING or not is_well(service)
    ]


def is_well(service: ServiceInfo) -> bool:
    """Whether a service's health, if it tells one, is good."""
    return service.health.unknown or service.health.healthy


def show_services(services: Services) -> None:
    """One table of all nodes' services."""
    rows = [("NODE", "SERVICE", "STATE", "HEALTH")]
    for node, entries in services:
        for service in entries:
            health = "?" if service.health.unknown else "OK" if service.health.healthy else "Fail"
            rows.append((node, service.id, service.state, health))
    console.write(format_table(rows))
