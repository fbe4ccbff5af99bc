"""Fixtures: a fake node, and talosctl run against it."""

import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.talosctl.fake import Client, FakeNode, Pki

from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType


@pytest.fixture(scope="session")
def pki() -> Pki:
    authority = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"])
    return Pki(
        authority=authority,
        admin=authority.issue(organizations=["os:admin"], usages=Usage.CLIENT, key_type=KeyType.ED25519),
        reader=authority.issue(organizations=["os:reader"], usages=Usage.CLIENT, key_type=KeyType.ED25519),
        server=authority.issue(
            common_name="node", ips=["127.0.0.1"], dns_names=["localhost"], usages=Usage.SERVER
        ),
    )


@pytest.fixture
def node(pki: Pki, tmp_path: Path) -> Iterator[FakeNode]:
    """A configured node: it demands client certificates of its CA."""
    folder = tmp_path / "node"
    folder.mkdir()
    yield from FakeNode(server_pair=pki.server, ca=pki.authority.crt).serve(folder)


@pytest.fixture
def maintenance_node(tmp_path: Path) -> Iterator[FakeNode]:
    """A node in maintenance mode: an unknown CA, no client certificates."""
    folder = tmp_path / "maintenance"
    folder.mkdir()
    other = CertificateAuthority.generate(KeyType.P256, common_name="maintenance")
    pair = other.issue(common_name="maintenance-service.talos.dev", ips=["127.0.0.1"], usages=Usage.SERVER)
    yield from FakeNode(server_pair=pair, ca=None).serve(folder)


@pytest.fixture
def client(tmp_path: Path, capfd: pytest.CaptureFixture[str], pki: Pki) -> Client:
    return Client(tmp_path / "talosconfig", capfd, pki)


@pytest.fixture
def talosctl(client: Client, node: FakeNode) -> Client:
    """A client of the fake node, with two nodes behind it."""
    client.configure([f"127.0.0.1:{node.port}"], ["10.0.0.2", "10.0.0.3"])
    return client


@pytest.fixture
def expired(pki: Pki) -> PemPair:
    import datetime

    start = datetime.datetime.now(datetime.UTC) - timedelta(days=3)
    return pki.authority.issue(
        organizations=["os:admin"],
        usages=Usage.CLIENT,
        key_type=KeyType.ED25519,
        not_before=start,
        ttl=timedelta(days=1),
    )


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees the person's own files."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("TALOSCONFIG", "TALOS_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def local_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of this machine resolve, also where nothing else resolves them, as in a build sandbox."""
    original = socket.getaddrinfo

    def lookup(host: Any, *arguments: Any, **options: Any) -> Any:
        local = host in ("localhost", "localhost.localdomain")
        return original("127.0.0.1" if local else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
