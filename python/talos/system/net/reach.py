"""Whether two ends of a connection are on one link: by routes, since addresses show nothing of it."""

import socket
from contextlib import suppress

_DISCARD_PORT = 9
"""RFC 863; nothing is sent."""


def is_on_link(link: str, *, here: str, there: str) -> bool:
    """Whether a link of this name exists, its routes lead to ``there``, and from this machine's ``here``.

    A neighbour can give another link a network that looks like this one's, by a router advertisement.
    """
    with suppress(OSError, ValueError):
        family = socket.AF_INET6 if ":" in there else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, link.encode())
            probe.connect((there, _DISCARD_PORT))
            return probe.getsockname()[0] == here
    return False
