"""``talosctl meta``."""

from talos.api.machine.machine_pb2 import (
    MetaDelete,
    MetaDeleteRequest,
    MetaDeleteResponse,
    MetaWrite,
    MetaWriteRequest,
    MetaWriteResponse,
)
from talos.client.session import Session
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.client.command import ignore, parts, run_each
from talos.talosctl.client.flags import CLIENT_FLAGS, INSECURE_FLAGS

_MAX_TAG = 255
"""A META tag is one byte."""


def _parse_key(text: str) -> int:
    try:
        key = int(text, 0)
    except ValueError:
        key = -1
    if not 0 <= key <= _MAX_TAG:
        raise UserError(f'"{text}" is no META key', hint="a key is a number from 0 to 255, such as 0x0a")
    return key


def run_write(invocation: Invocation) -> int:
    """Store a value under a key."""
    request = MetaWriteRequest(key=_parse_key(invocation.args[0]), value=invocation.args[1].encode())

    async def call(session: Session, node: str) -> list[MetaWrite]:
        reply = await session.unary(node, "/machine.MachineService/MetaWrite", request, MetaWriteResponse)
        return list(parts(reply, MetaWrite))

    return run_each(invocation, call, ignore)


def run_delete(invocation: Invocation) -> int:
    """Forget a key."""
    request = MetaDeleteRequest(key=_parse_key(invocation.args[0]))

    async def call(session: Session, node: str) -> list[MetaDelete]:
        reply = await session.unary(node, "/machine.MachineService/MetaDelete", request, MetaDeleteResponse)
        return list(parts(reply, MetaDelete))

    return run_each(invocation, call, ignore)


COMMAND = Command(
    name="meta",
    summary="Write and delete keys of the META partition",
    inherited=(*CLIENT_FLAGS, *INSECURE_FLAGS),
    commands=(
        Command(
            name="write", usage="key value", summary="Store a value", minimum=2, maximum=2, run=run_write
        ),
        Command(name="delete", usage="key", summary="Forget a key", minimum=1, maximum=1, run=run_delete),
    ),
)
