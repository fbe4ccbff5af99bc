"""Which daemon serves which service of the public API."""

from dataclasses import dataclass
from pathlib import Path

from talos.api.methods import methods, split_path
from talos.api.rpc import Code, RpcError
from talos.process import daemons


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A daemon that serves a part of the public API."""

    name: str
    socket: Path

    @property
    def needs_config(self) -> bool:
        """Whether it runs only when the machine has a config."""
        return self.name not in _WITHOUT_CONFIG


_WITHOUT_CONFIG = frozenset({daemons.MACHINED, *daemons.EARLY, *daemons.LATER})
OWNERS = (
    Owner(name=daemons.MACHINED, socket=Path(daemons.MACHINE_SOCKET)),
    *(
        Owner(name=daemon.name, socket=Path(daemon.socket))
        for daemon in daemons.DAEMONS
        if daemon.api or daemon.methods
    ),
)
"""PID 1, and the daemons whose row names services or methods of the API."""


def _find_owners() -> dict[str, Owner]:
    machined, *others = OWNERS
    owners = dict.fromkeys((split_path(path)[0] for path in methods()), machined)
    for owner in others:
        owners |= dict.fromkeys(daemons.BY_NAME[owner.name].api, owner)
    return owners


SERVICES = _find_owners()
"""Every service of the public API. What trustd serves is not part of it."""


METHODS = {path: owner for owner in OWNERS[1:] for path in daemons.BY_NAME[owner.name].methods}
"""Methods that are not served where the rest of their service is."""


def owner_of(path: str) -> Owner:
    """The daemon that serves a method; RpcError when there is no such service or method."""
    service, method = split_path(path)
    owner = SERVICES.get(service)
    if owner is None:
        raise RpcError(Code.UNIMPLEMENTED, f"unknown service {service}")
    if path not in methods():
        raise RpcError(Code.UNIMPLEMENTED, f"unknown method {method} for service {service}")
    return METHODS.get(path, owner)
