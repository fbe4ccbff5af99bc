"""Everything that a client is shown of a node: resources, logs, events, processes.

By the project's own client: accounts of pods have Ed25519 certificates, which the Python library of gRPC
does not take.
"""

import asyncio
from contextlib import suppress

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from tests.harness.credentials import API_PORT

from talos.api.common.common_pb2 import Data
from talos.api.cosi import state_pb2
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.api.tables import read_table
from talos.client.endpoint import Endpoint
from talos.client.namespaces import SYSTEM
from talos.client.session import Session, open_session
from talos.client.target import Target
from talos.pki.certificate import PemPair

REFUSALS = {Code.PERMISSION_DENIED, Code.INVALID_ARGUMENT}
LIST = "/cosi.resource.State/List"
MACHINE = "/machine.MachineService/"
SILENCE = 0.3
"""Seconds after which there are no more events of the past: the call does not end by itself."""


def target_of(address: str, ca: bytes, client: PemPair) -> Target:
    """One node, by a client's certificate."""
    endpoint = Endpoint(host=address, port=API_PORT)
    return Target(endpoints=(endpoint,), nodes=(), ca=ca, crt=client.crt, key=client.key)


async def list_everything(target: Target) -> dict[str, bytes]:
    """What a client is shown of each type; types that it is refused are left out."""
    found: dict[str, bytes] = {}
    async with open_session(target) as session:
        for row in read_table("resources.tsv"):
            if row["registered"] != "yes":
                continue
            for namespace in {row["default_namespace"], ""}:
                request = state_pb2.ListRequest(namespace=namespace, type=row["type"])
                try:
                    async with (
                        asyncio.timeout(30),
                        session.stream("", LIST, request, state_pb2.ListResponse) as replies,
                    ):
                        shown = [reply.SerializeToString() async for reply in replies]
                except RpcError as error:
                    if error.code not in REFUSALS:
                        raise
                    continue
                found[f"{row['type']}({namespace})"] = b"\n".join(shown)
    return found


async def read_logs(target: Target) -> dict[str, bytes]:
    """What a client is shown that no resource is: each log, the kernel's, events, command lines."""
    async with open_session(target) as session:
        reply = await session.unary("", MACHINE + "LogsContainers", Empty(), pb.LogsContainersResponse)
        found: dict[str, bytes] = {}
        for name in sorted({name for message in reply.messages for name in message.ids}):
            request = pb.LogsRequest(namespace=SYSTEM, id=name, tail_lines=-1)
            found[f"log of {name}"] = await _read(session, "Logs", request)
        found["log of the kernel"] = await _read(session, "Dmesg", pb.DmesgRequest())
        found["events"] = await _read_events(session)
        processes = await session.unary("", MACHINE + "Processes", Empty(), pb.ProcessesResponse)
        found["processes"] = processes.SerializeToString()
    return found


async def _read(session: Session, method: str, request: Message) -> bytes:
    async with session.stream("", MACHINE + method, request, Data) as replies:
        return b"".join([reply.bytes async for reply in replies])


async def _read_events(session: Session) -> bytes:
    request, shown = pb.EventsRequest(tail_events=-1), list[bytes]()
    async with session.stream("", MACHINE + "Events", request, pb.Event) as events:
        with suppress(TimeoutError):
            while True:
                async with asyncio.timeout(SILENCE):
                    shown.append((await anext(events)).SerializeToString())
    return b"\n".join(shown)
