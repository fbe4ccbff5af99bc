"""Images of containerd: listed with their size, removed."""

import gzip
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, ClassVar, override

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from tests.harness.registry import Handler, Store, running_registry
from tests.unit.machined.containerd.twin import MemoryContainerd

from talos.api.common import common_pb2
from talos.api.containerd import (
    content_pb2,
    descriptor_pb2,
    images_pb2,
)
from talos.api.definitions.cri_pb2 import RegistriesConfigSpec, RegistryEndpointConfig, RegistryMirrorConfig
from talos.api.machine import image_pb2
from talos.api.metadata import ROLE
from talos.api.rpc import Call, Code, RpcError
from talos.resource import ids
from talos.resource.changes import put
from talos.rpc.status import to_rpc_error
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.testing.files import MemoryFiles

SERVICE = "machine.ImageService"
SYSTEM = common_pb2.ContainerdInstance(driver=common_pb2.CONTAINERD, namespace=common_pb2.NS_SYSTEM)
TOP, ARM, AMD, BASE, UPPER, LAYOUT = (f"sha256:{letter * 64}" for letter in "abcdef")
INDEX = {
    "manifests": [
        {"digest": ARM, "size": 7, "platform": {"os": "linux", "architecture": "arm64"}},
        {"digest": AMD, "size": 5, "platform": {"os": "linux", "architecture": "amd64"}},
    ]
}
MANIFEST = {
    "schemaVersion": 2,
    "config": {"digest": LAYOUT, "size": 100},
    "layers": [{"digest": BASE, "size": 1000}, {"digest": UPPER, "size": 2000}],
}
CONFIG = {"rootfs": {"diff_ids": [BASE, UPPER]}}


@dataclass
class Containerd:
    """One image with an index; records its requests."""

    requests: list[Message] = field(default_factory=list)
    content: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {TOP: INDEX, AMD: MANIFEST, LAYOUT: CONFIG}
    )

    async def unary(self, method: str, request: Message, reply: type[Message], **_: Any) -> Message:
        self.requests.append(request)
        if method.endswith("Images/List"):
            target = descriptor_pb2.Descriptor(digest=TOP, size=10)
            return images_pb2.ListImagesResponse(images=[images_pb2.Image(name="a:1", target=target)])
        assert reply is Empty
        return Empty()

    @asynccontextmanager
    async def stream(
        self, method: str, request: Any, *_: Any, **__: Any
    ) -> AsyncGenerator[AsyncIterator[Any]]:
        assert method.endswith("Content/Read")

        async def chunks() -> AsyncGenerator[content_pb2.ReadContentResponse]:
            if request.digest not in self.content:
                raise RpcError(Code.NOT_FOUND, request.digest)
            data = json.dumps(self.content[request.digest]).encode()
            yield content_pb2.ReadContentResponse(data=data[:10])
            yield content_pb2.ReadContentResponse(data=data[10:])

        async with aclosing(chunks()) as stream:
            yield stream


@pytest.fixture
def containerd() -> Containerd:
    return Containerd()


@pytest.fixture
def images(caller: Any, containerd: Containerd) -> Any:
    @asynccontextmanager
    async def connect(path: str) -> AsyncGenerator[Containerd]:
        assert path == "/system/run/containerd/containerd.sock"
        yield containerd

    files = MemoryFiles({"/system/run/containerd/containerd.sock": ""})
    return caller.with_node(connect=connect, ports=replace(caller.node.ports, files=files))


async def read(images: Any, method: str, request: Message, call: Call | None = None) -> list[Any]:
    frames: list[Any] = []

    async def send(frame: Message) -> None:
        frames.append(frame)

    await images.handler(method, SERVICE)(request, call, send)
    return frames


async def test_sizes_are_those_of_this_machine(images: Any, containerd: Containerd) -> None:
    request = image_pb2.ImageServiceListRequest(containerd=SYSTEM)
    (image,) = await read(images, "List", request)
    assert (image.name, image.digest, image.size) == ("a:1", TOP, 10 + 5 + 3100)
    del containerd.content[AMD]
    (image,) = await read(images, "List", request)
    assert image.size == 10


async def test_remove(images: Any, containerd: Containerd) -> None:
    removal = image_pb2.ImageServiceRemoveRequest(containerd=SYSTEM, image_ref="busybox")
    await images.call("Remove", removal, SERVICE)
    name = "docker.io/library/busybox:latest"
    assert containerd.requests[-1] == images_pb2.DeleteImageRequest(name=name, sync=True)


async def test_an_instance_that_does_not_run(images: Any) -> None:
    cri = common_pb2.ContainerdInstance(driver=common_pb2.CRI, namespace=common_pb2.NS_CRI)
    with pytest.raises(RpcError) as caught:
        await read(images, "List", image_pb2.ImageServiceListRequest(containerd=cri))
    assert caught.value.code is Code.UNAVAILABLE


@pytest.mark.parametrize(
    ("role", "is_allowed"), [("os:admin", True), ("os:operator", True), ("os:upgrade", False)]
)
async def test_who_only_upgrades_nodes_pulls_nothing_but_releases(
    caller: Any, monkeypatch: pytest.MonkeyPatch, role: str, *, is_allowed: bool
) -> None:
    """Else the machine of an upgrade controller fills the disks of all nodes."""

    def find_root(_socket: str) -> str:
        return "/"

    monkeypatch.setattr("talos.machined.api.images.find_root", find_root)
    twin, store = MemoryContainerd(unpack=gzip.decompress), Store()
    store.add_image("team/app:1", {"a": b"1"})

    @asynccontextmanager
    async def connect(path: str) -> AsyncGenerator[MemoryContainerd]:
        yield twin

    files = MemoryFiles({"/system/run/containerd/containerd.sock": ""})
    images = caller.with_node(connect=connect, ports=replace(caller.node.ports, files=files))
    name = "registry.example/team/app:1"
    request = image_pb2.ImageServicePullRequest(containerd=SYSTEM, image_ref=name)
    call = Call(method="", metadata={ROLE: (role,)}, deadline=inf, peer="")
    with running_registry(store) as registry:
        endpoint = RegistryEndpointConfig(endpoint_endpoint=f"http://127.0.0.1:{registry.port}")
        mirror = RegistryMirrorConfig(mirror_endpoints=[endpoint], mirror_skip_fallback=True)
        await put(
            images.node.state, *ids.REGISTRY_CONFIG, RegistriesConfigSpec(registry_mirrors={"*": mirror})
        )
        if is_allowed:
            frames = await read(images, "Pull", request, call)
            assert frames[-1].name == name
        else:
            with pytest.RaisesGroup(pytest.RaisesExc(UserError, match="is no release of this system")):
                await read(images, "Pull", request, call)
            assert not [path for path in registry.requests if "/blobs/" in path]
    # The other one has the digest instead of the tag.
    names = sorted(found.partition("@")[0] for found in twin.images)
    assert names == (["registry.example/team/app", name] if is_allowed else [])


class Locked(Handler):
    """Refuses everybody."""

    status: ClassVar[int] = 403

    @override
    def may_pass(self) -> bool:
        self.answer(self.status, b"{}", "application/json")
        return False


class Broken(Locked):
    """Fails at the moment."""

    status = 503


@pytest.mark.parametrize(
    ("image", "servers", "code", "reason"),
    [
        ("a.example/Team/app:1", [], Code.INVALID_ARGUMENT, "is no repository"),
        ("a.example/team/app:1", [Handler], Code.NOT_FOUND, "it replied 404"),
        ("a.example/team/app:1", [Locked], Code.INVALID_ARGUMENT, "it replied 403"),
        ("a.example/team/app:1", [Broken], Code.UNAVAILABLE, "it replied 503"),
        ("a.example/team/app:1", [], Code.UNAVAILABLE, "a.example: name or service not known"),
        ("a.example/team/app:1", [Handler, None], Code.UNAVAILABLE, "connection refused"),
    ],
)
async def test_how_a_pull_that_fails_is_answered(
    images: Any,
    monkeypatch: pytest.MonkeyPatch,
    image: str,
    servers: Sequence[type[Handler] | None],
    code: Code,
    reason: str,
) -> None:
    """Who wrote a wrong reference has to change it; a registry that fails may answer later."""
    resolve = socket.getaddrinfo

    def getaddrinfo(host: str, *arguments: Any, **options: Any) -> Any:
        if host == "a.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr("talos.images.registry.session.ATTEMPTS", 1)
    monkeypatch.setattr("talos.machined.api.images.find_root", str)
    request = image_pb2.ImageServicePullRequest(containerd=SYSTEM, image_ref=image)
    with ExitStack() as registries:
        ports = [
            registries.enter_context(running_registry(Store(), server)).port if server else 1
            for server in servers
        ]
        endpoints = [RegistryEndpointConfig(endpoint_endpoint=f"http://127.0.0.1:{port}") for port in ports]
        mirror = RegistryMirrorConfig(mirror_endpoints=endpoints, mirror_skip_fallback=bool(ports))
        spec = RegistriesConfigSpec(registry_mirrors={"a.example": mirror})
        await put(images.node.state, *ids.REGISTRY_CONFIG, spec)
        call = Call(method="", metadata={ROLE: ("os:admin",)}, deadline=inf, peer="")
        with pytest.raises(ExceptionGroup) as caught:
            await read(images, "Pull", request, call)
    answer = to_rpc_error(caught.value, "Pull", Log())
    assert answer.code is code
    assert reason in answer.message
