"""Which sockets each daemon may reach, and what the servers behind them take from it."""

from pathlib import Path

from talos.process.daemons import BY_NAME, DAEMONS, MACHINE_SOCKET, ROUTERD, DaemonSpec
from talos.rpc.http2.frames import Bounds
from talos.rpc.http2.local_limits import LocalLimits

STATE_CONNECTIONS = 8
"""Connections of one daemon to the State: it has one or two, and may have as many again when it restarts."""
STATE_CALLS = 128
"""Calls of one connection. kubed, which follows most, watches 50 resources and kinds."""
STATE_UNSENT = 4 << 20
"""Bytes that wait for a daemon that does not read, beyond what its windows hold back."""
STATE_REQUEST_MEMORY = 4 << 20
"""Bytes of writes that are arriving, beside one of the largest that the daemon may make."""


def make_limits(daemon: DaemonSpec) -> LocalLimits:
    """The limits of a daemon's own socket: its one caller connects to it, and PID 1."""
    return LocalLimits(callers=frozenset({BY_NAME[daemon.caller].uid}))


def make_state_limits(daemon: DaemonSpec) -> LocalLimits:
    """The limits of the socket on which PID 1 serves the State to a daemon, which may do its worst."""
    return LocalLimits(
        callers=frozenset({daemon.uid}),
        connections=STATE_CONNECTIONS,
        bounds=Bounds(streams=STATE_CALLS, unsent=STATE_UNSENT),
        request_memory=STATE_REQUEST_MEMORY + daemon.max_message,
        is_metered=True,
    )


def find_directories(daemon: DaemonSpec) -> tuple[str, ...]:
    """The directories of all sockets that a daemon connects to: it sees no others."""
    directories = [daemon.state_directory]
    directories += [other.directory for other in DAEMONS if other.caller == daemon.name]
    if daemon is ROUTERD:
        directories.append(str(Path(MACHINE_SOCKET).parent))
    return tuple(directories)
