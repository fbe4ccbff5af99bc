"""MetaWrite and MetaDelete, and who sees META's values.

What an upgrade keeps in META is its own: it decides which system boots.
"""

from collections.abc import Mapping
from dataclasses import replace

from google.protobuf.message import Message

from talos.api.definitions.runtime_pb2 import MetaKeySpec
from talos.api.machine import machine_pb2 as pb
from talos.api.metadata import ADMIN
from talos.api.rpc import Call, Code, Handler, RpcError
from talos.machined.node.ports.node import Node
from talos.resource import kinds
from talos.resource.resource import Resource
from talos.system.block.meta import MetaFullError
from talos.system.errors import UserError
from talos.system.proc.cmdline import HIDDEN
from talos.upgrade.state import MAX_STATE, SHOWN, TAGS

LAST_KEY = 255
PROTECTED = frozenset({0x00, 0x07, 0x08, 0x09, 0x11, 0x12})
"""Keys that upstream writes itself, and the one that ends META's list: a staged upgrade's image and options,
STATE's encryption, a disk image's boot loader, volumes to wipe."""
_RESERVED = dict.fromkeys(TAGS, MAX_STATE)
"""Bytes: whatever else is in META, the state of an upgrade can be written."""


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""

    async def write(request: pb.MetaWriteRequest, _call: Call) -> pb.MetaWriteResponse:
        _check(request.key)
        try:
            await node.meta.set(request.key, request.value, reserved=_RESERVED)
        except MetaFullError as error:
            raise RpcError(Code.RESOURCE_EXHAUSTED, f"meta write failed: {error}") from None
        except (UserError, OSError) as error:
            raise _make_error(error) from None
        return pb.MetaWriteResponse(messages=[pb.MetaWrite()])

    async def delete(request: pb.MetaDeleteRequest, _call: Call) -> pb.MetaDeleteResponse:
        _check(request.key)
        try:
            was_there = await node.meta.delete(request.key)
        except (UserError, OSError) as error:
            raise _make_error(error) from None
        if not was_there:
            raise RpcError(Code.NOT_FOUND, f"meta key not found: 0x{request.key:02x}")
        return pb.MetaDeleteResponse(messages=[pb.MetaDelete()])

    return {"MetaWrite": write, "MetaDelete": delete}


async def hide_meta(resource: Resource[Message], call: Call) -> Resource[Message]:
    """A resource as a caller sees it: to others than administrators META shows an upgrade's state only.

    The other keys are a code that gives a machine its config, tokens, keys of WireGuard, passphrases.
    """
    is_shown = resource.metadata.type != kinds.META_KEY.type or resource.metadata.id in SHOWN
    if is_shown or ADMIN in call.roles or resource.spec == MetaKeySpec():
        return resource
    return replace(resource, spec=MetaKeySpec(value=HIDDEN))


def _check(key: int) -> None:
    if key > LAST_KEY:
        raise RpcError(Code.INVALID_ARGUMENT, f"key must be from 1 to {LAST_KEY}, not {key}")
    if key in PROTECTED:
        text = f"key 0x{key:02x} is the system's own and can't be written"
        raise RpcError(Code.PERMISSION_DENIED, text)
    if key in TAGS:
        text = f"key 0x{key:02x} is an upgrade's own and can't be written: use {TAGS[key]}"
        raise RpcError(Code.PERMISSION_DENIED, text)


def _make_error(error: UserError | OSError) -> RpcError:
    if isinstance(error, UserError):
        return RpcError(Code.FAILED_PRECONDITION, str(error))
    return RpcError(Code.UNKNOWN, f"META can't be written: {error.strerror}")
