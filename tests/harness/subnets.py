"""Address ranges for clusters of tests that run at the same time, in this process and in others."""

import fcntl
import os
from ipaddress import IPv4Network
from pathlib import Path

from talos.provision.host.checks import check_subnet
from talos.system.errors import UserError

RANGES = IPv4Network("10.0.0.0/8")
FIRST, LENGTH = 5, 24
"""10.5.0.0/24, 10.6.0.0/24, and so on."""
LOCKS = Path("/run/talos-tests")
ROUTES = Path("/proc/net/route")

_held: dict[IPv4Network, int] = {}
"""Locked descriptors. The kernel lets go of them when this process ends, however it ends."""


def free_subnet(locks: Path = LOCKS, routes: Path = ROUTES) -> str:
    """A subnet that nothing on this machine uses, and that no other process is given until this one ends.

    One that this process has had, and uses no more, is given again.
    """
    for subnet in list(RANGES.subnets(new_prefix=16))[FIRST:-1]:
        chosen = IPv4Network((subnet.network_address, LENGTH))
        if (chosen in _held or _lock(chosen, locks)) and _is_unused(chosen, routes):
            return str(chosen)
    raise AssertionError(f"no subnet of {RANGES} is free")


def _lock(subnet: IPv4Network, locks: Path) -> bool:
    locks.mkdir(parents=True, exist_ok=True)
    path = locks / str(subnet.network_address)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    _held[subnet] = descriptor
    return True


def _is_unused(subnet: IPv4Network, routes: Path) -> bool:
    try:
        check_subnet(subnet, routes.read_text(encoding="ascii"))
    except UserError:
        return False
    return True
