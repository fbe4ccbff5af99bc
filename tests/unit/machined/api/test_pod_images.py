"""What the kubelet pulls images by: containerd's image service, with the config's rules before a pull."""

import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, override

import pytest
import trio
from google.protobuf.message import Message
from tests.harness.registry import Registry, running_registry
from tests.unit.machined.containerd.verify.cosign import Image, WithReferrers, make_bundle, make_image
from tests.unit.rpc.echo import run_daemon

from talos.api.containerd import cri_images_pb2 as cri
from talos.api.containerd import images_pb2
from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.api.definitions.cri_pb2 import RegistriesConfigSpec, RegistryEndpointConfig, RegistryMirrorConfig
from talos.api.rpc import Call, Code, DuplexTransport, RpcError, Service
from talos.machined.api import pod_images
from talos.machined.node.config_store import publish_config
from talos.machined.node.ports.node import Node
from talos.pki.keys import KeyType, make_key, public_key_to_pem
from talos.process.run import Daemon
from talos.resource import ids
from talos.resource.changes import put
from talos.rpc.channel import open_channel
from talos.rpc.handlers import run_handler
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.protocol import OK, Status
from talos.rpc.server import serve

KEY = make_key(KeyType.P256)
SIGNED = "registry.example/team/app"
RULES = [
    {"image": f"{SIGNED}*", "publicKey": {"certificate": public_key_to_pem(KEY).decode()}},
    {"image": "registry.example/free/*", "skip": True},
    {"image": "docker.io/team/*", "deny": True},
]
CONFIG = json.dumps({"apiVersion": "v1alpha1", "kind": "ImageVerificationConfig", "rules": RULES})
IMAGE_ID = f"sha256:{'1' * 64}"
MANAGED = {"io.cri-containerd.image": "managed"}
POD = b"\x1a\x05\x0a\x03\x0a\x01a"
"""The field of a request that has the pod."""
PREFIX = "/runtime.v1.ImageService"


@dataclass
class FakeContainerd:
    """What it has pulled, its images, and which of them its image service finds by their names."""

    pulled: list[cri.PullImageRequest] = field(default_factory=list[cri.PullImageRequest])
    images: dict[str, images_pb2.Image] = field(default_factory=dict[str, images_pb2.Image])
    listed: set[str] = field(default_factory=set[str])
    passed: list[str] = field(default_factory=list[str])
    failure: RpcError | None = None

    async def pull(self, request: cri.PullImageRequest, _call: Call) -> cri.PullImageResponse:
        if self.failure:
            raise self.failure
        self.pulled.append(request)
        name = request.image.image
        target = Descriptor(digest=name.partition("@")[2])
        self.images[name] = images_pb2.Image(name=name, target=target, labels=MANAGED)
        self.listed.add(name)
        return cri.PullImageResponse(image_ref=IMAGE_ID)

    async def status(self, request: cri.ImageStatusRequest, _call: Call) -> cri.ImageStatusResponse:
        name = request.image.image
        if name in self.listed:
            return cri.ImageStatusResponse(image=cri.Image(id=IMAGE_ID))
        if name in self.images:
            self.listed.add(name)  # an event later
        return cri.ImageStatusResponse()

    async def get(self, request: images_pb2.GetImageRequest, call: Call) -> images_pb2.GetImageResponse:
        assert call.metadata["containerd-namespace"] == ("k8s.io",)
        return images_pb2.GetImageResponse(image=self.images[request.name])

    async def create(self, request: images_pb2.CreateImageRequest, _call: Call) -> Message:
        if request.image.name in self.images:
            raise RpcError(Code.ALREADY_EXISTS, "it exists")
        self.images[request.image.name] = request.image
        return images_pb2.CreateImageResponse(image=request.image)

    async def update(self, request: images_pb2.UpdateImageRequest, _call: Call) -> Message:
        self.images[request.image.name] = request.image
        return images_pb2.UpdateImageResponse(image=request.image)

    async def answer_bytes(self, call: ServerCall) -> Status:
        """All other methods: the request comes back twice."""
        self.passed.append(call.method)
        request = await call.receive() or b""
        await call.send(request)
        if call.method.endswith("StreamImages"):
            await call.send(request)
        return OK

    @asynccontextmanager
    async def serving(self, daemon: Daemon, path: Path) -> AsyncGenerator[None]:
        listed = images_pb2.DESCRIPTOR.services_by_name["Images"]
        services = [
            Service(pod_images.SERVICE, {"PullImage": self.pull, "ImageStatus": self.status}),
            Service(listed, {"Get": self.get, "Create": self.create, "Update": self.update}),
        ]

        async def pass_bytes(call: ServerCall) -> None:
            await run_handler(self.answer_bytes, call, daemon.log)

        async with serve(daemon, services, path, others={PREFIX: pass_bytes}):
            yield


class Private(WithReferrers):
    """Answers who has the password."""

    @override
    def may_pass(self) -> bool:
        if self.headers.get("Authorization") == f"Basic {base64.b64encode(b'pod:secret').decode()}":
            return super().may_pass()
        self.answer(401, b"", "text/plain", {"WWW-Authenticate": 'Basic realm="x"'})
        return False


@pytest.fixture
def image() -> Image:
    image = make_image()
    image.add_referrer(make_bundle(KEY, image.digest))
    return image


@pytest.fixture
def registry(image: Image) -> Iterator[Registry]:
    with running_registry(image.store, WithReferrers) as registry:
        yield registry


type Use = Callable[[DuplexTransport, FakeContainerd], Awaitable[None]]


@pytest.fixture
def run(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run a test as the kubelet of a node whose registries are one."""
    monkeypatch.setattr(pod_images, "KUBELET_IMAGES", str(tmp_path / "kubelet"))
    monkeypatch.setattr(pod_images, "CRI_SOCKET", str(tmp_path / "containerd"))

    def run(use: Use, port: int, config: str = CONFIG) -> None:
        async def main(daemon: Daemon) -> None:
            served = replace(node, connect=partial(open_channel, daemon))
            endpoint = RegistryEndpointConfig(endpoint_endpoint=f"http://127.0.0.1:{port}")
            mirror = RegistryMirrorConfig(mirror_endpoints=[endpoint], mirror_skip_fallback=True)
            await put(node.state, *ids.REGISTRY_CONFIG, RegistriesConfigSpec(registry_mirrors={"*": mirror}))
            await publish_config(node.state, ids.MACHINE_CONFIG, config.encode())
            containerd = FakeContainerd()
            async with (
                containerd.serving(daemon, tmp_path / "containerd"),
                pod_images.serve_pod_images(daemon, served),
                open_channel(daemon, tmp_path / "kubelet") as kubelet,
            ):
                await use(kubelet, containerd)

        run_daemon(main)

    return run


async def pull(
    kubelet: DuplexTransport, name: str, auth: cri.AuthConfig | None = None
) -> cri.PullImageResponse:
    request = cri.PullImageRequest(image=cri.ImageSpec(image=name), auth=auth)
    request = cri.PullImageRequest.FromString(request.SerializeToString() + POD)
    return await kubelet.unary(pod_images.PULL, request, cri.PullImageResponse)


async def refuse(kubelet: DuplexTransport, name: str, auth: cri.AuthConfig | None = None) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await pull(kubelet, name, auth)
    return caught.value


@pytest.mark.parametrize("name", [f"{SIGNED}:1", f"{SIGNED}@{{digest}}", f"{SIGNED}:1@{{digest}}"])
def test_a_signed_image_is_pulled_by_its_digest_and_has_its_name(
    run: Any, registry: Registry, image: Image, name: str
) -> None:
    async def use(kubelet: DuplexTransport, containerd: FakeContainerd) -> None:
        verified = f"{SIGNED}@{image.digest}"
        requested = name.format(digest=image.digest)
        assert (await pull(kubelet, requested)).image_ref == IMAGE_ID
        [request] = containerd.pulled
        assert request.image.image == verified
        assert request.SerializeToString().endswith(POD)
        found = verified if "@" in requested else requested
        assert containerd.images.keys() == {verified, found}
        assert containerd.images[found].target.digest == image.digest
        labels = dict(containerd.images[found].labels)
        assert labels.pop("talos.dev/verified").startswith("verified via bundle referrer")
        assert labels == MANAGED
        assert found in containerd.listed
        # Once more, when the name is there.
        await pull(kubelet, requested)
        assert "talos.dev/verified" in containerd.images[found].labels

    run(use, registry.port)


def test_a_tag_that_moves_while_it_is_pulled_changes_nothing(
    run: Any, registry: Registry, image: Image
) -> None:
    async def use(kubelet: DuplexTransport, containerd: FakeContainerd) -> None:
        await pull(kubelet, f"{SIGNED}:1")
        image.store.add_image("team/app:1", {"a": b"2"}, compress=False)
        error = await refuse(kubelet, f"{SIGNED}:1")
        assert "it is not signed" in error.message
        assert [one.image.image for one in containerd.pulled] == [f"{SIGNED}@{image.digest}"]
        assert containerd.images[f"{SIGNED}:1"].target.digest == image.digest

    run(use, registry.port)


def test_what_the_rules_refuse_is_not_pulled(run: Any, registry: Registry, image: Image) -> None:
    image.store.add_image("team/app2:1", {"a": b"2"}, compress=False)

    async def use(kubelet: DuplexTransport, containerd: FakeContainerd) -> None:
        for name, shown, code, reason in (
            (f"{SIGNED}2:1", "", Code.PERMISSION_DENIED, "image verification failed: image registry.example"),
            (f"{SIGNED}:2", "", Code.NOT_FOUND, "image reference not found during resolution: "),
            ("team/a", "docker.io/team/a:latest", Code.PERMISSION_DENIED, "verification denied by matched"),
            ("index.docker.io/team/a:1", "docker.io/team/a:1", Code.PERMISSION_DENIED, "verification denied"),
            ("DOCKER.io/team/a:1", "", Code.PERMISSION_DENIED, "verification denied by matched rule (0002)"),
        ):
            error = await refuse(kubelet, name)
            assert error.code is code, name
            text = f'failed to verify image "{shown or name}" with talos: {reason}'
            assert error.message.startswith(text), error.message
        assert (await refuse(kubelet, "Team")).code is Code.INVALID_ARGUMENT
        assert containerd.pulled == []

    run(use, registry.port)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("registry.example/free/a:1", "registry.example/free/a:1"),
        ("other", "docker.io/library/other:latest"),
        (f"other:1@{IMAGE_ID}", f"docker.io/library/other:1@{IMAGE_ID}"),
    ],
)
def test_what_no_rule_demands_to_be_verified_is_pulled_as_it_is(run: Any, name: str, full: str) -> None:
    async def use(kubelet: DuplexTransport, containerd: FakeContainerd) -> None:
        assert (await pull(kubelet, name)).image_ref == IMAGE_ID
        assert [one.image.image for one in containerd.pulled] == [full]
        assert dict(containerd.images[full].labels) == MANAGED

    run(use, 1)


def test_without_a_registry_nothing_is_verified_and_all_else_goes_on(run: Any) -> None:
    async def use(kubelet: DuplexTransport, containerd: FakeContainerd) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(check_refused, kubelet)
            await pull(kubelet, "registry.example/free/a:1")
            status = cri.ImageStatusRequest(image=cri.ImageSpec(image=f"{SIGNED}:1"))
            reply = await kubelet.unary(pod_images.STATUS, status, cri.ImageStatusResponse)
            assert not reply.HasField("image")
        assert len(containerd.pulled) == 1

    async def check_refused(kubelet: DuplexTransport) -> None:
        error = await refuse(kubelet, f"{SIGNED}:1")
        assert error.code is Code.UNAVAILABLE
        assert error.message.startswith(f'failed to verify image "{SIGNED}:1" with talos: image {SIGNED}:1: ')

    run(use, 1)


def test_other_methods_are_passed_on_as_bytes(run: Any) -> None:
    async def use(kubelet: DuplexTransport, containerd: FakeContainerd) -> None:
        spec = cri.ImageSpec.FromString(cri.ImageSpec(image="a").SerializeToString() + POD)
        for method in ("ListImages", "ImageFsInfo", "RemoveImage", "OfALaterVersion"):
            reply = await kubelet.unary(f"{PREFIX}/{method}", spec, cri.ImageSpec)
            assert reply.SerializeToString() == spec.SerializeToString()
        async with kubelet.stream(f"{PREFIX}/StreamImages", spec, cri.ImageSpec) as replies:
            assert len([one async for one in replies]) == 2
        assert len(containerd.passed) == 5
        with pytest.raises(RpcError) as caught:
            await kubelet.unary("/runtime.v1.RuntimeService/Version", spec, cri.ImageSpec)
        assert caught.value.code is Code.UNIMPLEMENTED

    run(use, 1)


def test_errors_of_containerd_reach_the_kubelet(run: Any, registry: Registry) -> None:
    async def use(kubelet: DuplexTransport, containerd: FakeContainerd) -> None:
        containerd.failure = RpcError(Code.UNKNOWN, "no space left on device")
        for name in (f"{SIGNED}:1", "registry.example/free/a:1"):
            error = await refuse(kubelet, name)
            assert (error.code, error.message) == (Code.UNKNOWN, "no space left on device")

    run(use, registry.port)


@pytest.mark.parametrize(
    ("auth", "works"),
    [
        (None, False),
        (cri.AuthConfig(username="pod", password="secret"), True),
        (cri.AuthConfig(auth=base64.b64encode(b"pod:secret").decode()), True),
        (cri.AuthConfig(username="pod", password="other"), False),
        (cri.AuthConfig(username="pod", password="secret", server_address="https://127.0.0.1:{port}"), True),
        (cri.AuthConfig(username="pod", password="secret", server_address="https://other.example"), False),
    ],
)
def test_a_pods_credentials_count(
    run: Any, image: Image, auth: cri.AuthConfig | None, *, works: bool
) -> None:
    with running_registry(image.store, Private) as registry:

        async def use(kubelet: DuplexTransport, containerd: FakeContainerd) -> None:
            if auth is not None:
                auth.server_address = auth.server_address.format(port=registry.port)
            if works:
                await pull(kubelet, f"{SIGNED}:1", auth)
                assert containerd.pulled[0].auth == auth
            else:
                assert (await refuse(kubelet, f"{SIGNED}:1", auth)).code is Code.UNAVAILABLE

        run(use, registry.port)
