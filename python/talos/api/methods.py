"""The API's methods, as the table ``api/roles.tsv`` has them."""

import enum
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from talos.api.rpc import Code, RpcError
from talos.api.tables import read_table


class StreamKind(enum.Enum):
    """Which sides of a call send more than one message; the text is the table's."""

    UNARY = "unary"
    CLIENT = "client"
    SERVER = "server"
    BOTH = "bidi"

    @property
    def streams_requests(self) -> bool:
        """Whether the client may send any number of messages."""
        return self in {StreamKind.CLIENT, StreamKind.BOTH}

    @property
    def streams_replies(self) -> bool:
        """Whether the server may send any number of messages."""
        return self in {StreamKind.SERVER, StreamKind.BOTH}


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One row: a method, who may call it, and how it may be reached.

    ``roles`` are those one of which the caller must have. A reader may call a method
    with ``maintenance_reader`` while the machine has no configuration yet.
    """

    path: str
    stream: StreamKind
    roles: frozenset[str]
    maintenance_reader: bool = False
    one_to_many: bool = False
    control_plane_only: bool = False
    in_maintenance: bool = False


_ROLE = re.compile(r"os:[a-z:]*[a-z]")


def _parse_row(row: Mapping[str, str]) -> Method:
    cell = row["roles_any_of"]
    always, _, note = cell.partition(" (")
    return Method(
        path=row["method"],
        stream=StreamKind(row["stream"]),
        roles=frozenset(_ROLE.findall(always)),
        maintenance_reader="os:reader too" in note,
        one_to_many=row["one2many_via_nodes"] == "yes",
        control_plane_only=row["controlplane_only"] == "yes",
        in_maintenance=row["insecure_maintenance"].startswith("yes"),
    )


@functools.cache
def methods() -> Mapping[str, Method]:
    """Every method of the API by its path."""
    return {method.path: method for method in map(_parse_row, read_table("roles.tsv"))}


def stream_kind(path: str) -> StreamKind:
    """How a method streams; of one that is not in the table anything may come."""
    method = methods().get(path)
    return StreamKind.BOTH if method is None else method.stream


def split_path(path: str) -> tuple[str, str]:
    """The service and the method of a path; RpcError when it is malformed."""
    empty, _, rest = path.partition("/")
    service, slash, method = rest.rpartition("/")
    if empty or not slash or not service or not method or "/" in service:
        raise RpcError(Code.UNIMPLEMENTED, f'malformed method name: "{path}"')
    return service, method
