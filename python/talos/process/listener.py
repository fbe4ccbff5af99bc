"""The listening socket that PID 1 hands to a daemon."""

import os
import socket

LISTENER_FD = "TALOS_LISTENER_FD"
"""The environment variable that names it."""


def take_listener() -> socket.socket:
    """The socket, which listens already; OSError when this process was handed none."""
    number = os.environ.pop(LISTENER_FD, "")
    if not number:
        raise OSError("this process was handed no listening socket")
    return socket.socket(fileno=int(number))
