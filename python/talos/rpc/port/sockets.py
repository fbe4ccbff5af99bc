"""Sockets of a port: the one that listens, and how long those that are accepted may be silent."""

import socket

BACKLOG = 256
"""Connections that the kernel completes before they are accepted here."""


def open_listening_socket(host: str, port: int) -> socket.socket:
    """A socket that accepts connections, without a host on all addresses; OSError."""
    # One socket for both families, unless the kernel has no IPv6.
    dual = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual or ":" in host else socket.AF_INET
    listening = socket.create_server(
        (host, port), family=family, backlog=BACKLOG, reuse_port=False, dualstack_ipv6=dual
    )
    listening.setblocking(False)
    return listening


def keep_alive(connected: socket.socket) -> None:
    """Notice clients that vanished: after 15 s of silence, 9 probes, 15 s apart, as Go does."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 9)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
