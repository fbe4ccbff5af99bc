"""How a call ends: between our errors and gRPC's status."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message
from google.protobuf.symbol_database import Default

from talos.api.google.rpc import status_pb2
from talos.api.rpc import Code, RpcError
from talos.system.errors import UserError

if TYPE_CHECKING:
    from talos.rpc.protocol import Status
    from talos.system.logging import Log

STATUS_DETAILS = "grpc-status-details-bin"
"""The trailer that carries a ``google.rpc.Status``."""


MAX_MESSAGE_LENGTH = 4096
"""Bytes of a status message. gRPC clients refuse trailers of more than 8 KiB, and with them the reason."""


def to_rpc_error(error: Exception, method: str, log: "Log") -> RpcError:
    """The status for an error of a handler; one that is a defect of ours is logged."""
    match _leaf(error):
        case RpcError() as known:
            return RpcError(known.code, cut_message(known.message), known.details)
        case UserError() as mistake:
            return RpcError(Code.INVALID_ARGUMENT, cut_message(str(mistake)))
        case defect:
            incident = os.urandom(4).hex()
            log.error("a call failed", id=incident, method=method, error=defect)
            return RpcError(Code.INTERNAL, f"internal error {incident}: details are in the service's log")


def parse_details(trailers: Iterable[tuple[str, str | bytes]]) -> status_pb2.Status | None:
    """The status with details that a call has ended with; None when there is none or it can't be parsed."""
    packed = dict(trailers).get(STATUS_DETAILS)
    if not isinstance(packed, bytes):
        return None
    try:
        return status_pb2.Status.FromString(packed)
    except DecodeError:
        return None


def check_status(status: "Status") -> None:
    """Raise the error that a call has ended with; its details are messages where their type is known."""
    if not status.code:
        return
    found = parse_details(status.trailers)
    details = () if found is None else found.details
    code = Code(status.code) if status.code in Code else Code.UNKNOWN
    raise RpcError(code, status.message or code.name, tuple(map(_unpack, details)))


def _unpack(detail: AnyMessage) -> Message:
    try:
        return Default().GetSymbol(detail.TypeName()).FromString(detail.value)
    except (KeyError, DecodeError):
        return detail


def cut_message(message: str) -> str:
    """A message short enough for trailers, in which only printable ASCII takes one byte."""
    if len(message) <= MAX_MESSAGE_LENGTH // 3:
        return message
    size = 0
    for position, char in enumerate(message):
        size += 1 if " " <= char <= "~" and char != "%" else 3 * len(char.encode(errors="replace"))
        if size > MAX_MESSAGE_LENGTH:
            return f"{message[:position]}… ({len(message) - position} more characters)"
    return message


def _leaf(error: Exception) -> Exception:
    """The one error in groups of one, as a nursery in a handler makes them."""
    if not isinstance(error, ExceptionGroup):
        return error
    inner = cast("ExceptionGroup[Exception]", error).exceptions
    return _leaf(inner[0]) if len(inner) == 1 else cast("Exception", error)


def make_trailers(error: RpcError) -> tuple[tuple[str, bytes], ...]:
    """The trailing metadata of a call that ends with details."""
    if not error.details:
        return ()
    status = status_pb2.Status(code=error.code, message=error.message)
    for detail in error.details:
        status.details.add().Pack(detail)
    return ((STATUS_DETAILS, status.SerializeToString()),)
