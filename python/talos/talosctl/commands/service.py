"""``talosctl service``: list services, look at one, start, stop and restart it."""

from collections.abc import Iterable, Sequence

from google.protobuf.empty_pb2 import Empty

from talos.api.machine.machine_pb2 import (
    ServiceInfo,
    ServiceList,
    ServiceListResponse,
    ServiceRestart,
    ServiceRestartRequest,
    ServiceRestartResponse,
    ServiceStart,
    ServiceStartRequest,
    ServiceStartResponse,
    ServiceStop,
    ServiceStopRequest,
    ServiceStopResponse,
)
from talos.client.session import Session
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.client.command import Row, parts, run_each, run_table
from talos.talosctl.client.complete import complete_services
from talos.talosctl.client.flags import CLIENT_FLAGS, INSECURE_FLAGS, OUTPUT
from talos.talosctl.output import console
from talos.talosctl.output.rows import format_documents
from talos.talosctl.output.table import format_table
from talos.talosctl.output.units import format_age, format_time

ACTIONS = ("status", "start", "stop", "restart")


def run_service(invocation: Invocation) -> int:
    """No argument: the list. An id: its status. An id and an action: the action."""
    if not invocation.args:
        header = ("NODE", "SERVICE", "STATE", "HEALTH", "LAST CHANGE", "LAST EVENT")
        return run_table(invocation, header, _list, _list_rows)
    service = invocation.args[0]
    action = invocation.args[1] if len(invocation.args) > 1 else "status"
    if action not in ACTIONS:
        raise UserError(f'"{action}" is not an action', hint=f"use one of {', '.join(ACTIONS)}")
    if action == "status":
        return _run_status(invocation, service)

    async def act(session: Session, node: str) -> str:
        return await _act(session, node, service, action)

    def rows(node: str, response: str) -> Iterable[Row]:
        return [(node, response)]

    return run_table(invocation, ("NODE", "RESPONSE"), act, rows)


async def _list(session: Session, node: str) -> list[ServiceInfo]:
    reply = await session.unary(node, "/machine.MachineService/ServiceList", Empty(), ServiceListResponse)
    return [service for part in parts(reply, ServiceList) for service in part.services]


def _list_rows(node: str, services: list[ServiceInfo]) -> Iterable[Row]:
    for service in services:
        last = service.events.events[-1] if service.events.events else None
        yield (
            node,
            service.id,
            service.state,
            _health(service),
            f"{format_age(last.ts)} ago" if last else "",
            last.msg if last else "",
        )


def _health(service: ServiceInfo) -> str:
    if service.health.unknown:
        return "?"
    return "OK" if service.health.healthy else "Fail"


def _run_status(invocation: Invocation, service: str) -> int:
    async def call(session: Session, node: str) -> ServiceInfo | None:
        return next((info for info in await _list(session, node) if info.id == service), None)

    missing: list[str] = []

    async def call_or_note(session: Session, node: str) -> ServiceInfo:
        info = await call(session, node)
        if info is None:
            missing.append(node)
        return info or ServiceInfo()

    output = invocation.flags.text("output")

    def show(node: str, info: ServiceInfo) -> None:
        if info.id and output == "table":
            console.write(format_table(status_rows(node, info)))
        elif info.id:
            console.write(format_documents(output, [_status_document(node, info)]))

    code = run_each(invocation, call_or_note, show)
    for node in missing:
        console.note(f'error: {node}: there is no service "{service}"')
    return 1 if missing else code


def status_rows(node: str, info: ServiceInfo) -> Iterable[Row]:
    """What is known of a service, a line each."""
    yield ("NODE", node)
    yield ("ID", info.id)
    yield ("STATE", info.state)
    yield ("HEALTH", _health(info))
    if info.health.last_message:
        yield ("LAST HEALTH MESSAGE", info.health.last_message)
    label = "EVENTS"
    for event in reversed(info.events.events):
        yield (label, f"[{event.state}]: {event.msg} ({format_age(event.ts)} ago)")
        label = ""


def _status_document(node: str, info: ServiceInfo) -> dict[str, object]:
    return {
        "node": node,
        "id": info.id,
        "state": info.state,
        "health": _health(info),
        "lastHealthMessage": info.health.last_message,
        "events": [
            {"time": format_time(event.ts), "state": event.state, "message": event.msg}
            for event in reversed(info.events.events)
        ],
    }


async def _act(session: Session, node: str, service: str, action: str) -> str:
    path = "/machine.MachineService/Service"
    if action == "start":
        start = await session.unary(
            node, path + "Start", ServiceStartRequest(id=service), ServiceStartResponse
        )
        return next((part.resp for part in parts(start, ServiceStart)), "")
    if action == "stop":
        stop = await session.unary(node, path + "Stop", ServiceStopRequest(id=service), ServiceStopResponse)
        return next((part.resp for part in parts(stop, ServiceStop)), "")
    restart = await session.unary(
        node, path + "Restart", ServiceRestartRequest(id=service), ServiceRestartResponse
    )
    return next((part.resp for part in parts(restart, ServiceRestart)), "")


def complete(invocation: Invocation, prefix: str) -> Sequence[str]:
    """Service ids, then actions."""
    if not invocation.args:
        return complete_services(invocation, prefix)
    return ACTIONS if len(invocation.args) == 1 else ()


COMMAND = Command(
    name="service",
    aliases=("services",),
    usage="[<id> [start|stop|restart|status]]",
    summary="Show and control the node's services",
    details="Without an argument lists all services. With an id shows its state, health and latest "
    "events; with an action as well starts, stops or restarts it.",
    flags=(*CLIENT_FLAGS, *INSECURE_FLAGS, OUTPUT),
    maximum=2,
    run=run_service,
    complete=complete,
)
