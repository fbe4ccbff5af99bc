"""Whom a machine in maintenance serves, where no client has a certificate."""

from ipaddress import ip_address

import trio

from talos.api.definitions.runtime_pb2 import APIServiceConfigSpec
from talos.apid.caller import is_manager
from talos.process.follow import follow
from talos.resource import ids
from talos.resource.state import State
from talos.system.logging import Log

EVERYWHERE = ":50000"
"""The listen address of a machine that serves everybody."""


class Admission:
    """Everybody; or, with SideroLink, the manager at the other end of that link alone.

    The port listens on all addresses: a link that comes and goes takes no socket with it.
    """

    def __init__(self) -> None:
        self.known = trio.Event()
        self._listen = EVERYWHERE

    def admits(self, there: str, here: str) -> bool:
        """Whether a connection from one address to another is served; the node's own always are."""
        if self._listen == EVERYWHERE or ip_address(there.partition("%")[0]).is_loopback:
            return True
        return self._listen == f"[{here}]{EVERYWHERE}" and is_manager(there, here)

    async def watch(self, state: State, log: Log) -> None:
        """Follow the State until cancelled."""
        await follow(state, *ids.API_SERVICE_CONFIG, self.set, log)

    def set(self, spec: APIServiceConfigSpec | None) -> None:
        """Use these settings from now on."""
        if spec is not None:
            self._listen = spec.listen_address
            self.known.set()
