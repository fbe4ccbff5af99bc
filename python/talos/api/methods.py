"""The API's methods: the roles that may call each, and the bounds of its requests and replies.

Roles and arities are upstream's facts (``api/roles.tsv``), the sizes are this system's
(``api/requests.tsv``, ``api/replies.tsv``), and so are further roles, which only add to what
upstream's may do (``api/own_roles.tsv``), and further methods (``api/own_methods.tsv``).
"""

import enum
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from talos.api.rpc import Code, RpcError
from talos.api.tables import read_table

DEFAULT_REQUEST = 256 * 1024
"""Bytes of a request of a method without a row in ``api/requests.tsv``."""

DEFAULT_REPLY = 2 * 1024 * 1024
"""Bytes of a reply of a method without a row in ``api/replies.tsv``: files come in chunks of up to 1 MiB."""


class StreamKind(enum.Enum):
    """Which sides of a call send more than one message; the text is the table's."""

    UNARY = "unary"
    CLIENT = "client"
    SERVER = "server"
    BOTH = "bidi"

    @property
    def streams_replies(self) -> bool:
        """Whether the server may send any number of messages."""
        return self in {StreamKind.SERVER, StreamKind.BOTH}


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One row: a method, the roles that may call it, and how it may be reached.

    The caller must have one of ``roles``. A reader may call a method
    with ``maintenance_reader`` while the machine has no configuration yet. ``max_request`` is
    the size of its largest request message, in bytes; of a stream, of each message. ``max_reply``
    is the same for replies, before those of several nodes are merged.
    """

    path: str
    stream: StreamKind
    roles: frozenset[str]
    maintenance_reader: bool = False
    one_to_many: bool = False
    max_request: int = DEFAULT_REQUEST
    max_reply: int = DEFAULT_REPLY


_ROLE = re.compile(r"os:[a-z:]*[a-z]")


type _Sizes = Mapping[str, int]


def _parse_row(
    row: Mapping[str, str], requests: _Sizes, replies: _Sizes, own: Mapping[str, set[str]]
) -> Method:
    cell = row["roles_any_of"]
    always, _, note = cell.partition(" (")
    return Method(
        path=row["method"],
        stream=StreamKind(row["stream"]),
        roles=frozenset(_ROLE.findall(always)) | own.get(row["method"], set()),
        maintenance_reader="os:reader too" in note,
        one_to_many=row["one2many_via_nodes"] == "yes",
        max_request=requests.get(row["method"], DEFAULT_REQUEST),
        max_reply=replies.get(row["method"], DEFAULT_REPLY),
    )


@functools.cache
def methods() -> Mapping[str, Method]:
    """Every method of the API by its path."""
    requests = {row["method"]: int(row["max_request"]) for row in read_table("requests.tsv")}
    replies = {row["method"]: int(row["max_reply"]) for row in read_table("replies.tsv")}
    own: dict[str, set[str]] = {}
    for row in read_table("own_roles.tsv"):
        own.setdefault(row["method"], set()).add(row["role"])
    rows = (*read_table("roles.tsv"), *read_table("own_methods.tsv"))
    found = [_parse_row(row, requests, replies, own) for row in rows]
    return {method.path: method for method in found}


def stream_kind(path: str) -> StreamKind:
    """How a method streams; one that is not in the table may be of any kind."""
    method = methods().get(path)
    return StreamKind.BOTH if method is None else method.stream


def streams_replies(path: str) -> bool:
    """Whether replies of several nodes are passed on one by one; for unknown methods the name decides."""
    method = methods().get(path)
    return path.endswith("Stream") if method is None else method.stream.streams_replies


def max_request(path: str) -> int:
    """Bytes of the largest request message of a method, whether it is in the table or not."""
    method = methods().get(path)
    return DEFAULT_REQUEST if method is None else method.max_request


def max_reply(path: str) -> int:
    """Bytes of the largest reply message of a method at one node, whether it is in the table or not."""
    method = methods().get(path)
    return DEFAULT_REPLY if method is None else method.max_reply


def split_path(path: str) -> tuple[str, str]:
    """The service and the method of a path; RpcError when it is malformed."""
    empty, _, rest = path.partition("/")
    service, slash, method = rest.rpartition("/")
    if empty or not slash or not service or not method or "/" in service:
        raise RpcError(Code.UNIMPLEMENTED, f'malformed method name: "{path}"')
    return service, method
