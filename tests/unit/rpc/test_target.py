"""Targets of connections."""

import pytest

from talos.rpc.target import make_target


@pytest.mark.parametrize(
    ("host", "target"),
    [
        ("node-1.example.org", "dns:///node-1.example.org:50000"),
        ("10.5.0.2", "ipv4:10.5.0.2:50000"),
        ("fd00::2", "ipv6:%5Bfd00::2%5D:50000"),
        ("fe80::1%eth0", "ipv6:%5Bfe80::1%25eth0%5D:50000"),
    ],
)
def test_each_kind_of_host(host: str, target: str) -> None:
    assert make_target(host, 50000) == target
