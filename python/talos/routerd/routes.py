"""Which daemon serves which service of the public API."""

from dataclasses import dataclass
from pathlib import Path

from talos.api.methods import methods, split_path
from talos.api.rpc import Code, RpcError


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A daemon that serves a part of the public API."""

    name: str
    socket: Path


MACHINED = Owner(name="machined", socket=Path("/system/run/machined/machine.sock"))
TIMED = Owner(name="timed", socket=Path("/system/run/timed/timed.sock"))

SERVICES: dict[str, Owner] = dict.fromkeys({split_path(path)[0] for path in methods()}, MACHINED) | {
    "time.TimeService": TIMED
}
"""Every service of the public API. What trustd serves is not part of it."""

OWNERS = (MACHINED, TIMED)


def owner_of(path: str) -> Owner:
    """The daemon that serves a method; RpcError when there is no such service or method."""
    service, method = split_path(path)
    owner = SERVICES.get(service)
    if owner is None:
        raise RpcError(Code.UNIMPLEMENTED, f"unknown service {service}")
    if path not in methods():
        raise RpcError(Code.UNIMPLEMENTED, f"unknown method {method} for service {service}")
    return owner
