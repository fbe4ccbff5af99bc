"""``talosctl config new``."""

import asyncio
from dataclasses import replace
from pathlib import Path

from google.protobuf.duration_pb2 import Duration

from talos.api.machine.machine_pb2 import (
    GenerateClientConfiguration,
    GenerateClientConfigurationRequest,
    GenerateClientConfigurationResponse,
)
from talos.api.metadata import ADMIN
from talos.api.rpc import RpcError
from talos.client.failure import describe
from talos.client.session import open_session
from talos.config.talosconfig.places import open_talosconfig, save
from talos.config.talosconfig.text import parse_talosconfig
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import need_one_node, parts
from talos.talosctl.client.roles import read_roles
from talos.talosctl.client.select import find_target


def run_new(invocation: Invocation) -> int:
    """Let a control plane node issue a certificate, and write a talosconfig with it."""
    flags = invocation.flags
    path = Path(invocation.args[0] if invocation.args else "talosconfig")
    if path.exists():
        raise UserError("it exists", where=str(path), hint="name another file")
    request = GenerateClientConfigurationRequest(
        roles=read_roles(flags), crt_ttl=Duration(seconds=int(flags.seconds("crt-ttl")))
    )

    async def fetch() -> bytes:
        target = await find_target(flags)
        # Any endpoint can issue it; a node is only named when one is wanted.
        node = need_one_node(target, "config new") if target.nodes else ""
        async with open_session(target) as session:
            method = "/machine.MachineService/GenerateClientConfiguration"
            try:
                reply = await session.unary(node, method, request, GenerateClientConfigurationResponse)
                return next(part.talosconfig for part in parts(reply, GenerateClientConfiguration))
            except RpcError as error:
                raise UserError(describe(error, target), where=node) from error

    issued = parse_talosconfig(asyncio.run(fetch()), source="the node's reply")
    current, _ = open_talosconfig(flags.text("talosconfig"))
    mine = current.get(flags.text("context") or current.context)
    contexts = {
        name: context if context.endpoints else replace(context, endpoints=mine.endpoints)
        for name, context in issued.contexts.items()
    }
    save(replace(issued, contexts=contexts), path)
    return 0


COMMAND = Command(
    name="new",
    usage="[<path>]",
    summary="Let the node issue a new client configuration",
    flags=(
        Flag(name="roles", type=Type.STRINGS, default=ADMIN, help="what its owner may do"),
        Flag(
            name="crt-ttl", type=Type.DURATION, default="8760h0m0s", help="how long the certificate is valid"
        ),
    ),
    maximum=1,
    run=run_new,
)
