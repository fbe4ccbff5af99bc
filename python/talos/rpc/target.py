"""How grpc names where it connects to."""

import ipaddress
from urllib.parse import quote


def make_target(host: str, port: int) -> str:
    """The target of a host name or address; its scheme keeps grpc from guessing what it is."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"dns:///{host}:{port}"
    if address.version == 4:
        return f"ipv4:{address}:{port}"
    # The target is a URI: the brackets and the % before a zone are escaped.
    return f"ipv6:{quote(f'[{address}]', safe=':')}:{port}"
