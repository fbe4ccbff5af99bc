"""Addresses that a server listens on."""

import pytest

from talos.serving.address import parse_address
from talos.system.errors import UserError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":3000", ("", 3000)),
        ("192.0.2.1:0", ("192.0.2.1", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("host.example:80", ("host.example", 80)),
    ],
)
def test_a_host_and_a_port_are_read(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text, "--addr", ":3000") == address


@pytest.mark.parametrize(
    "text", ["", "host", "3000", "3000x", "::1:3000", "[::1:3000", "host:65536", "host:-1", "h:\u0663"]
)
def test_what_has_no_host_and_port_is_refused(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_address(text, "--addr", ":3000")
    assert str(caught.value) == f'--addr: "{text}" is no address with a port (write it like :3000)'
