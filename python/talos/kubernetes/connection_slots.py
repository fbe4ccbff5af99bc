"""Slots for a balancer's connections, and which connection makes room when there are none left.

Clients keep watches that may be quiet for hours, so nothing is closed for its silence alone.
"""

from dataclasses import dataclass, field

import trio

from talos.system.files import Files, KernelFiles
from talos.system.logging import Log
from talos.system.proc.sockets import find_socket

MAX_CONNECTIONS = 1024
RESERVED = 64
"""The last slots, which only connections of root get: the kubelet runs as root, and holds about ten."""
IDLE_TIMEOUT = 60.0  # seconds
"""Without a byte either way; then a connection may be closed for another one, unless it is root's."""
LOG_INTERVAL = 60.0  # seconds


@dataclass(slots=True, eq=False)
class ConnectionSlot:
    """The slot of one connection, which ends with ``scope``."""

    client: trio.socket.SocketType
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    used_at: float = field(default_factory=trio.current_time)
    is_root: bool | None = None
    """Whether the client's socket is root's; None before it was looked up."""

    def note_use(self) -> None:
        """A byte has passed."""
        self.used_at = trio.current_time()


@dataclass(slots=True, kw_only=True)
class ConnectionSlots:
    """A bounded number of slots. Clients' sockets are looked up in ``files``, and only when slots run out.

    The kernel shows the owner of sockets in the reader's own network namespace: clients of other machines and
    namespaces are never root.
    """

    maximum: int = MAX_CONNECTIONS
    reserved: int = RESERVED
    idle_timeout: float = IDLE_TIMEOUT
    files: Files = field(default_factory=KernelFiles)
    log: Log = field(default_factory=Log)
    _taken: dict[ConnectionSlot, None] = field(default_factory=dict[ConnectionSlot, None], init=False)
    _logged_at: float = field(default=float("-inf"), init=False)

    def take(self, client: trio.socket.SocketType) -> ConnectionSlot | None:
        """A slot, for which an idle connection may be ended; None when there is none."""
        slot = ConnectionSlot(client)
        if len(self._taken) >= self.maximum - self.reserved:
            tables = _Tables(self.files)
            has_room = len(self._taken) < self.maximum and tables.is_root(slot)
            if not has_room and not self._make_room(tables):
                self._note("a connection is refused: all others are in use, or root's")
                return None
        self._taken[slot] = None
        return slot

    def leave(self, slot: ConnectionSlot) -> None:
        """A connection has ended."""
        self._taken.pop(slot, None)

    def _make_room(self, tables: "_Tables") -> bool:
        latest = trio.current_time() - self.idle_timeout
        idle = sorted((slot for slot in self._taken if slot.used_at <= latest), key=lambda one: one.used_at)
        for slot in idle:
            if not tables.is_root(slot):
                self._note("the connection that was idle for longest is closed for a new one")
                del self._taken[slot]
                slot.scope.cancel()
                return True
        return False

    def _note(self, text: str) -> None:
        """Log it, at most once in an interval: a flood does not fill the log."""
        if trio.current_time() - self._logged_at >= LOG_INTERVAL:
            self._logged_at = trio.current_time()
            self.log.warning(f"too many connections to the API servers: {text}", connections=len(self._taken))


class _Tables:
    """The kernel's tables of TCP sockets, each read once for a decision."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._texts: dict[str, str] = {}

    def is_root(self, slot: ConnectionSlot) -> bool:
        """Whether the other end of a connection is root's; not so when its program has closed it."""
        if slot.is_root is None:
            slot.is_root = self._find(slot.client)
        return slot.is_root or False

    def _find(self, client: trio.socket.SocketType) -> bool | None:
        try:
            local, remote = client.getpeername()[:2], client.getsockname()[:2]
            protocol = "tcp6" if ":" in local[0] else "tcp"
            if protocol not in self._texts:
                self._texts[protocol] = self._files.read(f"/proc/self/net/{protocol}")
        except OSError:
            return None
        found = find_socket(self._texts[protocol], protocol, local, remote)
        # A socket that its program has closed has no inode, and the kernel shows it as root's.
        return found.uid == 0 if found and found.inode else None
