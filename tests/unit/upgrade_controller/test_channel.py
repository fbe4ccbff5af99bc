"""Channels: a registry's tag is accepted with a signature only, and what the registry sends is bounded."""

import base64
import json
import re
import socket
import ssl
import tarfile
import threading
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, override

import pytest
from tests.harness import registry
from tests.harness.registry import MANIFEST, Handler, Store, encode, running_registry
from tests.harness.tls import make_server_tls

from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType
from talos.system.errors import UserError
from talos.upgrade.release.main import main
from talos.upgrade.release.signature import load_public
from talos.upgrade_controller.channel import ChannelRelease, read_channel
from talos.upgrade_controller.credentials import ANONYMOUS, parse_credentials


class Channel:
    """A registry whose tag ``stable`` moves to releases."""

    def __init__(self, folder: Path) -> None:
        self.store, self.folder = Store(), folder
        for name in ("ours", "theirs"):
            assert main(["keygen", str(folder / f"{name}.key")]) == 0
        self.port, self.scheme = 0, "http"
        self.credentials = ANONYMOUS

    def login(self, host: str, password: str) -> None:
        """Call a host with this password from now on."""
        auths = {host: {"username": "me", "password": password}}
        self.credentials = parse_credentials(encode({"auths": auths}), where="login")

    def publish(self, version: str = "v1.15.1", *, key: str = "ours", in_index: bool = False) -> str:
        """Move the tag to a new release; its manifest's digest."""
        folder = self.folder
        files: list[str] = []
        for name in ("vmlinuz", "initramfs", "cmdline"):
            (folder / name).write_bytes(name.encode())
            files.append(str(folder / name))
        plain, signed = folder / "plain.tar", folder / "signed.tar"
        assert main(["make", "--version", version, "--out", str(plain), *files]) == 0
        if key:
            private = str(folder / f"{key}.key")
            assert main(["sign", "--key", private, "--out", str(signed), str(plain)]) == 0
        with tarfile.open(signed if key else plain) as tar:
            index = json.loads(_read(tar, "index.json"))
            digest = index["manifests"][0]["digest"]
            manifest = _read(tar, f"blobs/{digest.replace(':', '/')}")
        self.put(manifest, in_index=in_index)
        return str(digest)

    def put(self, data: bytes, *, in_index: bool = False) -> None:
        """Let the tag mean this."""
        descriptor = self.store.add(data, MANIFEST)
        if in_index:
            self.store.tag("talos/installer:stable", descriptor)
        else:
            self.store.tags["talos/installer", "stable"] = descriptor["digest"]

    def read(self, name: str = "talos/installer:stable", *, key: str = "ours") -> ChannelRelease:
        endpoint = f"{self.scheme}://127.0.0.1:{self.port}/"
        keys = [load_public(self.folder / f"{key}.pub")]
        return read_channel(f"registry.test/{name}", keys, endpoint=endpoint, credentials=self.credentials)

    def refusal(self, name: str = "talos/installer:stable", *, key: str = "ours") -> str:
        with pytest.raises(UserError) as caught:
            self.read(name, key=key)
        assert "\n" not in str(caught.value)
        return str(caught.value)


def _read(tar: tarfile.TarFile, name: str) -> bytes:
    content = tar.extractfile(name)
    assert content is not None
    return content.read()


@pytest.fixture
def channel(tmp_path: Path) -> Generator[Channel]:
    found = Channel(tmp_path)
    with running_registry(found.store) as running:
        found.port = running.port
        yield found


@pytest.mark.parametrize("in_index", [False, True])
def test_a_tag_is_a_digest_with_a_version(channel: Channel, in_index: bool) -> None:
    digest = channel.publish(in_index=in_index)
    release = channel.read()
    assert (release.manifest.version, release.digest) == ("v1.15.1", digest)
    assert release.image == f"registry.test/talos/installer@{digest}"
    newer = channel.publish("v1.15.2", in_index=in_index)
    assert channel.read().digest == newer != digest


def test_signatures(channel: Channel) -> None:
    channel.publish(key="")
    assert "the release is not signed" in channel.refusal()
    channel.publish(key="theirs")
    assert "is of none of the 1 keys" in channel.refusal()
    assert channel.read(key="theirs").manifest.version == "v1.15.1"


@pytest.mark.parametrize("reply", [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200])
def test_what_is_no_registry(channel: Channel, reply: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(reply)

        threading.Thread(target=serve, daemon=True).start()
        channel.port = server.getsockname()[1]
        assert "the registry does not answer: " in channel.refusal()


def test_registries_that_have_something_else(channel: Channel) -> None:
    assert "the registry answers 404" in channel.refusal()
    for data in (b"[]", b"not json", b"[" * 100_000, b"{}"):
        channel.put(data)
        assert "the registry gives no manifest" in channel.refusal()
    channel.put(encode({"schemaVersion": 2, "annotations": ["dev.talos.release.manifest"]}))
    assert "is no release of this system" in channel.refusal()
    channel.put(
        encode({"manifests": [7, {"digest": 5}, {"digest": "x", "platform": {"architecture": "arm64"}}]})
    )
    assert "has no image for amd64" in channel.refusal()
    channel.put(b" " * (2 << 20))
    assert "sends more than 1048576 bytes" in channel.refusal()


def test_a_digest_is_what_it_says(channel: Channel) -> None:
    channel.publish(in_index=True)
    digest = next(key for key, kind in channel.store.kinds.items() if kind == registry.MANIFEST)
    channel.store.blobs[digest] = channel.store.blobs[digest].replace(b"v1", b"v2") + b" "
    assert f"what the registry gives as {digest} is something else" in channel.refusal()


@pytest.mark.parametrize(
    "name", ["", "Upper/case:tag", "a b", "installer:" + "x" * 200, "installer@sha256:00"]
)
def test_names_that_are_none(channel: Channel, name: str) -> None:
    assert "is no image with its registry's host" in channel.refusal(name)


def test_a_port_without_a_listener(channel: Channel) -> None:
    channel.port = 1
    assert "the registry does not answer: " in channel.refusal()


class Wanting(Handler):
    """Wants a token, of a place that is not safe to call."""

    realm = "http://127.0.0.1/token"

    @override
    def may_pass(self) -> bool:
        headers: Mapping[str, Any] = {"WWW-Authenticate": f'Bearer realm="{self.realm}",service="x"'}
        self.answer(401, b"{}", "application/json", headers)
        return False


class Redirecting(Handler):
    """Sends its clients elsewhere."""

    @override
    def may_pass(self) -> bool:
        self.answer(302, b"", "text/plain", {"Location": "file:///etc/passwd"})
        return False


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [(Wanting, "wants a token from no https URL"), (Redirecting, "the registry answers 302")],
)
def test_registries_that_lead_elsewhere(tmp_path: Path, behaviour: type[Handler], text: str) -> None:
    channel = Channel(tmp_path)
    with running_registry(channel.store, behaviour) as running:
        channel.port = running.port
        assert text in channel.refusal()


ME = f"Basic {base64.b64encode(b'me:secret').decode()}"


class Private(Handler):
    """Gives one user what it has, by a password."""

    challenge = 'Basic realm="private"'

    @override
    def may_pass(self) -> bool:
        return self.check(ME, self.challenge)

    def check(self, wanted: str, challenge: str) -> bool:
        """Whether it is the right user's request; it is answered otherwise."""
        if self.headers["Authorization"] == wanted:
            return True
        self.answer(401, b"{}", "application/json", {"WWW-Authenticate": challenge})
        return False


class PrivateByToken(Private):
    """Gives one user a token for what it has."""

    @override
    def may_pass(self) -> bool:
        if not self.path.startswith("/token?"):
            host = self.headers["Host"]
            challenge = f'Bearer realm="https://{host}/token",service="r",scope="repository:x:pull"'
            return self.check("Bearer good", challenge)
        if self.check(ME, 'Basic realm="tokens"'):
            assert self.path == "/token?service=r&scope=repository%3Ax%3Apull"
            self.answer(200, b'{"token": "good"}', "application/json")
        return False


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """TLS of a server that this process trusts."""
    authority = CertificateAuthority.generate(KeyType.P256, common_name="registries")
    pair = authority.issue(common_name="r", ips=["127.0.0.1"], usages=Usage.SERVER)
    (tmp_path / "ca.pem").write_bytes(authority.pem.crt)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return make_server_tls(tmp_path, pair)


@pytest.mark.parametrize("behaviour", [Private, PrivateByToken])
def test_private_registries(tmp_path: Path, tls: ssl.SSLContext, behaviour: type[Handler]) -> None:
    channel = Channel(tmp_path)
    digest = channel.publish()
    with running_registry(channel.store, behaviour, tls=tls) as running:
        channel.port = running.port
        channel.scheme = "https"
        assert re.search(r"answers 401|gives no token without a user", channel.refusal())
        channel.login(f"127.0.0.1:{running.port}", "wrong")
        assert re.search(r"answers 401|refuses this user a token", channel.refusal())
        channel.login("127.0.0.1", "secret")
        assert re.search(r"answers 401|gives no token without a user", channel.refusal()), "another port's"
        channel.login(f"127.0.0.1:{running.port}", "secret")
        assert channel.read().digest == digest


class InThePath(Private):
    """Names a server for tokens of its own."""

    challenge = 'Bearer realm="https://127.0.0.1:1/token"'


@pytest.mark.parametrize("behaviour", [Private, InThePath])
def test_no_password_leaves_without_tls(tmp_path: Path, behaviour: type[Handler]) -> None:
    channel = Channel(tmp_path)
    with running_registry(channel.store, behaviour) as running:
        channel.port = running.port
        channel.login(f"127.0.0.1:{running.port}", "secret")
        assert "over a connection that is not safe" in channel.refusal()
