"""Azure's wire server: the report that a machine is up, without which its creation counts as failed."""

import re

import trio

from talos.machined.platform.clouds.server import MetadataServer
from talos.machined.platform.clouds.xml_text import read_texts
from talos.system.errors import UserError

WIRE_SERVER = "http://168.63.129.16"
GOAL, HEALTH = f"{WIRE_SERVER}/machine/?comp=goalstate", f"{WIRE_SERVER}/machine?comp=health"
HEADERS = {"x-ms-agent-name": "WALinuxAgent", "x-ms-version": "2015-04-05"}
TYPE = {"Content-Type": "text/xml;charset=utf-8"}
REPORT_TIMEOUT = 60.0
"""Seconds for all of it: the config waits for the report."""
_INCARNATION, _CONTAINER, _INSTANCE = "Incarnation", "ContainerId", "InstanceId"
_ID = re.compile(r"[\w.-]{1,200}", re.ASCII)


async def report_ready(server: MetadataServer) -> None:
    """Report the machine as ready. What fails is logged: it concerns only the cloud's view of the machine."""
    with trio.move_on_after(REPORT_TIMEOUT) as limit:
        goal = await server.get(GOAL, HEADERS)
        try:
            report = make_report(goal)
        except UserError as error:
            server.report(f"the machine is not reported as ready: {error}")
            return
        await server.post(HEALTH, {**HEADERS, **TYPE}, report)
    if limit.cancelled_caught:
        server.report(f"the machine is not reported as ready: no answer in {REPORT_TIMEOUT:.0f} s")


def make_report(goal: bytes) -> bytes:
    """The report for what the server has as the machine's goal. UserError: when that is malformed."""
    names = (_INCARNATION, _CONTAINER, _INSTANCE)
    found = read_texts(goal, names, "goalstate")
    for name in names:
        if not _ID.fullmatch(found.get(name, "")):
            raise UserError("an id is expected here", where=f"goalstate.{name}")
    return (
        '<?xml version="1.0" encoding="utf-8"?>'
        f"<Health><GoalStateIncarnation>{found[_INCARNATION]}</GoalStateIncarnation>"
        f"<Container><ContainerId>{found[_CONTAINER]}</ContainerId>"
        f"<RoleInstanceList><Role><InstanceId>{found[_INSTANCE]}</InstanceId>"
        "<Health><State>Ready</State></Health></Role></RoleInstanceList></Container></Health>"
    ).encode()
