"""A socket that PID 1 opens once and hands to each process of a daemon."""

import socket

HOST = "127.0.0.1"
IP_FREEBIND = 15  # linux/in.h
BACKLOG = 16
"""Connections that wait while the daemon is replaced."""


def open_listener() -> socket.socket:
    """Listen on a free port of the loopback interface, which may not be up yet; OSError."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        listener.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        listener.bind((HOST, 0))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
