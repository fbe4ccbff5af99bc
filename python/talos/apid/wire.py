"""Replies of several nodes made one, on the encoded messages and without their schema.

Every reply that can be merged is ``{repeated X messages = 1}`` with ``X {Metadata metadata = 1}``.
Encoded messages may be concatenated: repeated fields add up, and of a field that comes twice
the parts are merged. So metadata is appended, and whole replies are joined.
"""

from talos.api.common import common_pb2 as common
from talos.api.google.rpc import status_pb2
from talos.api.rpc import Code
from talos.rpc.protocol import Status
from talos.rpc.status import parse_details

_FIELD_1 = b"\x0a"
"""The tag of field 1, length-delimited."""

_CODE_NAMES = {code.value: "".join(map(str.capitalize, code.name.split("_"))) for code in Code} | {
    Code.OK.value: "OK",
    Code.CANCELLED.value: "Canceled",
}


class MergeError(Exception):
    """A reply that doesn't have the form that can be merged."""


def mark_reply(reply: bytes, target: str) -> bytes:
    """A unary reply whose first element names the node that sent it."""
    metadata = _metadata(common.Metadata(hostname=target))
    if not reply:
        return _embed(metadata)
    if not reply.startswith(_FIELD_1):
        raise MergeError(f"unexpected message format: {reply[0]}")
    size, begin = _parse_varint(reply, 1)
    end = begin + size
    if end > len(reply):
        raise MergeError("the message is cut off")
    return b"".join((_FIELD_1, _varint(size + len(metadata)), reply[begin:end], metadata, reply[end:]))


def mark_frame(frame: bytes, target: str) -> bytes:
    """A message of a stream with the name of the node that sent it."""
    return frame + _metadata(common.Metadata(hostname=target))


def make_error_reply(status: Status, target: str) -> bytes:
    """What stands in a unary reply for a node that failed."""
    return _embed(make_error_frame(status, target))


def make_error_frame(status: Status, target: str) -> bytes:
    """What stands in a stream for a node that failed."""
    packed = parse_details(status.trailers) or status_pb2.Status(code=status.code, message=status.message)
    return _metadata(common.Metadata(hostname=target, error=error_text(status), status=packed))


def error_text(status: Status) -> str:
    """A status as the API's clients have always printed it."""
    return f"rpc error: code = {code_name(status.code)} desc = {status.message}"


def code_name(code: int) -> str:
    """A status code as the API's clients have always printed it."""
    return _CODE_NAMES.get(code, f"Code({code})")


def _metadata(metadata: common.Metadata) -> bytes:
    return _embed(metadata.SerializeToString())


def _embed(message: bytes) -> bytes:
    return _FIELD_1 + _varint(len(message)) + message


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _parse_varint(data: bytes, begin: int) -> tuple[int, int]:
    number = shift = 0
    for position in range(begin, min(begin + 10, len(data))):
        byte = data[position]
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, position + 1
    raise MergeError("the message is cut off")
