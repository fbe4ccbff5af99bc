"""Names of VLANs that are called by the link that they are on, and their number."""

import hashlib

MAX_PARENT = 10
"""Characters: with a dot and four digits they are the 15 that the kernel allows (IFNAMSIZ less the zero)."""


def make_vlan_name(parent: str, number: int) -> str:
    """``eth0.5``; of a link with a longer name the first four characters and a digest, as upstream has it."""
    if len(parent) > MAX_PARENT:
        parent = parent[:4] + hashlib.sha256(parent.encode()).hexdigest()[:6]
    return f"{parent}.{number}"
