"""The requests of PID 1 to the zygote, one for each kind of process that it forks."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from talos.system.sandbox import NO_PATHS, Paths

MAX_REQUEST = 16 * 1024
"""Bytes of one request on the socket between PID 1 and the zygote."""
MAX_DESCRIPTORS = 3
"""Of one request: the daemon's output, its readiness pipe, and its listening socket, if it has one."""
PID_FORMAT = "i"
"""The answer: the pid of the new process, 0 when there could be none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest:
    """A daemon to start.

    ``paths`` are directories that it sees writable, all else is read-only, and those that it reads beside
    what every daemon does; ``sockets`` are the directories of the sockets that it connects to; ``families``
    are the address families of its sockets.
    """

    module: str
    title: str
    uid: int
    gid: int
    capabilities: tuple[int, ...] = ()
    paths: Paths = NO_PATHS
    sockets: tuple[str, ...] = ()
    families: tuple[int, ...] = ()
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolateRequest:
    """The first process of new namespaces for workloads; as a daemon, it reports readiness."""

    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteRequest:
    """A program to run in the workloads' namespaces; after its output comes a pidfd of the first process."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


type Request = ForkRequest | IsolateRequest | ExecuteRequest


def format_request(request: Request) -> bytes:
    """A request for the socket."""
    values = {field.name: getattr(request, field.name) for field in fields(request)}
    return json.dumps([type(request).__name__, values], default=_make_plain).encode()


def _make_plain(value: Any) -> Any:
    return asdict(value) if isinstance(value, Paths) else dict(value)


def parse_request(data: bytes) -> Request:
    """A request from the socket."""
    name: str
    values: dict[str, Any]
    name, values = json.loads(data)
    match name:
        case "IsolateRequest":
            return IsolateRequest(**values)
        case "ExecuteRequest":
            return ExecuteRequest(argv=tuple(values["argv"]), environment=values["environment"])
        case _:
            for key in ("capabilities", "sockets", "families"):
                values[key] = tuple(values[key])
            values["paths"] = Paths(**{name: tuple(paths) for name, paths in values["paths"].items()})
            return ForkRequest(**values)
