"""Images on a node: from a registry that its config names, into each of containerd's namespaces."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast, override

import grpc
import pytest
from tests.harness.cluster import Cluster, eventually
from tests.harness.credentials import API_PORT, authority_of, credentials_of
from tests.harness.registry import Handler, Registry, Store, make_archive, running_registry
from tests.node.test_pods import encode

from talos.api.common.common_pb2 import ContainerdInstance, ContainerdNamespace, ContainerDriver, Data
from talos.api.machine.image_pb2 import ImageServiceImportRequest, ImageServiceImportResponse
from talos.api.machine.machine_pb2 import ImageListRequest, ImageListResponse

CONTENT = "var/lib/containerd/io.containerd.content.v1.content"
SNAPSHOTS = "var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots"
MORE, LEFT, SLACK = 384 << 20, 192 << 20, 16 << 20
"""Bytes of a layer that shrinks to a thousandth, of the room for it, and of what else the node writes."""
CONFIG = """\
machine:
  registries:
    mirrors:
      images.example: {{endpoints: ["http://{good}"], skipFallback: true}}
      worse.example: {{endpoints: ["http://{bad}"], skipFallback: true}}
"""


class Lying(Handler):
    """Has other layers than its manifests list."""

    @override
    def send_content(self, kind: str, digest: str, data: bytes) -> None:
        if kind == "blobs":
            data = data[:-1] + bytes([data[-1] ^ 1])
        super().send_content(kind, digest, data)


@pytest.fixture(scope="module")
def registry(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A good registry and a bad one at the address that the cluster has on this machine."""
    store = Store()
    store.add_image("team/app:1", {"file": b"first"}, {"other": bytes(3_000_000)})
    store.add_image("team/bad:1", {"file": b"bad"}, {"large": bytes(range(256)) * 20_000}, compress=False)
    patch = tmp_path_factory.mktemp("patch") / "patch.yaml"
    gateway = str(cluster.info.gateway)
    with running_registry(store, host=gateway) as good, running_registry(store, Lying, host=gateway) as bad:
        text = CONFIG.format(good=f"{gateway}:{good.port}", bad=f"{gateway}:{bad.port}")
        patch.write_text(text, encoding="utf-8")
        on_node(cluster, "patch", "mc", "--patch", f"@{patch}")

        def is_known() -> None:
            [found] = cluster.resource("registryconfigs.cri.talos.dev")
            assert "worse.example" in str(found["spec"]), found

        eventually("the registries are known", is_known)
        yield good


def on_node(cluster: Cluster, *argv: str, check: bool = True) -> str:
    result = cluster.talosctl("-n", cluster.addresses[0], *argv, check=check)
    return result.stdout + result.stderr


def list_names(cluster: Cluster, namespace: str) -> list[str]:
    rows = cluster.rows("-n", cluster.addresses[0], "image", "list", "--namespace", namespace)
    return [row["IMAGE"] for row in rows]


@pytest.mark.parametrize("namespace", ["cri", "system", "inmem"])
def test_an_image_comes_and_goes(cluster: Cluster, registry: Registry, namespace: str) -> None:
    name = "images.example/team/app:1"
    assert name in on_node(cluster, "image", "pull", name, "--namespace", namespace)
    assert registry.requests[0] == "GET /v2/team/app/manifests/1?ns=images.example"
    names = list_names(cluster, namespace)
    assert name in names
    assert any(found.startswith("images.example/team/app@sha256:") for found in names), names
    on_node(cluster, "image", "pull", name, "--namespace", namespace)
    on_node(cluster, "image", "remove", name, "--namespace", namespace)

    def is_gone() -> None:
        assert not [found for found in list_names(cluster, namespace) if "images.example" in found]

    eventually("the image is gone", is_gone)
    text = on_node(cluster, "image", "remove", name, "--namespace", namespace, check=False)
    assert "rpc error: code = NotFound desc = " in text


def test_an_archive_is_imported_over_the_api(cluster: Cluster) -> None:
    store = Store()
    store.add_image("sent:1", {"file": bytes(range(256)) * 8000}, compress=False)
    archive = make_archive(store, {"registry.example/sent:1": "sent:1"})
    system = ContainerdInstance(driver=ContainerDriver.CRI, namespace=ContainerdNamespace.NS_SYSTEM)
    sent: list[int] = []

    pods = ContainerdInstance(driver=ContainerDriver.CRI, namespace=ContainerdNamespace.NS_CRI)

    def make_requests(data: bytes, into: ContainerdInstance = system) -> Iterator[ImageServiceImportRequest]:
        yield ImageServiceImportRequest(containerd=into)
        for start in range(0, len(data), 65536):
            yield ImageServiceImportRequest(image_chunk=Data(bytes=data[start : start + 65536]))
        sent.append(len(data))

    credentials = credentials_of(authority_of(cluster), "os:admin")
    with grpc.secure_channel(f"{cluster.addresses[0]}:{API_PORT}", credentials) as channel:
        send = channel.stream_unary(
            "/machine.ImageService/Import",
            request_serializer=ImageServiceImportRequest.SerializeToString,
            response_deserializer=ImageServiceImportResponse.FromString,
        )
        # A client that is answered before it has sent the padding of an archive takes that for a failure.
        padded = archive + bytes(16 << 20)
        assert send(make_requests(padded), timeout=60).name == "registry.example/sent:1"
        assert sent == [len(padded)]
        # The same content in another namespace, and from several archives at a time.
        calls = [send.future(make_requests(archive, into), timeout=60) for into in (pods, system, pods)]
        assert {call.result().name for call in calls} == {"registry.example/sent:1"}
        older = channel.unary_stream(
            "/machine.MachineService/ImageList",
            request_serializer=ImageListRequest.SerializeToString,
            response_deserializer=ImageListResponse.FromString,
        )
        found = older(ImageListRequest(namespace=ContainerdNamespace.NS_SYSTEM), timeout=60)
        assert "registry.example/sent:1" in {image.name for image in found}
        for data, reason in ((b"", "has no index.json"), (archive[:100_000], "in the middle of an entry")):
            with pytest.raises(grpc.RpcError) as caught:
                send(make_requests(data), timeout=60)
            assert reason in str(caught.value)
    assert "registry.example/sent:1" in list_names(cluster, "system")


def test_nothing_of_a_lie_is_kept(cluster: Cluster, registry: Registry) -> None:
    large = max(registry.store.blobs, key=lambda digest: len(registry.store.blobs[digest]))
    text = on_node(cluster, "image", "pull", "worse.example/team/bad:1", "--namespace", "system", check=False)
    assert text.count("\n") == 1
    assert "image worse.example/team/bad:1: blob sha256:" in text
    assert "what it sends is not this blob" in text
    assert "worse.example/team/bad:1" not in list_names(cluster, "system")
    content = Path(cluster.root(), CONTENT)

    def is_clean() -> None:
        assert not list((content / "ingest").iterdir())
        assert not (content / "blobs" / large.replace(":", "/")).exists()

    eventually("nothing is left", is_clean)


def test_a_layer_that_outgrows_the_disk_is_refused(cluster: Cluster, registry: Registry) -> None:
    registry.store.add_image("team/bomb:1", {"zeros": bytes(MORE)})
    ephemeral = Path(cluster.root(), "var")
    snapshots = Path(cluster.root(), SNAPSHOTS)
    before, filler = set(snapshots.iterdir()), ephemeral / "filler"
    try:
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, measure_free(ephemeral) - LEFT)
        text = on_node(
            cluster, "image", "pull", "images.example/team/bomb:1", "--namespace", "cri", check=False
        )
        assert text.count("\n") == 1
        assert "image images.example/team/bomb:1: layer sha256:" in text
        assert "takes more when unpacked than /var/lib/containerd/" in text
        assert "images.example/team/bomb:1" not in list_names(cluster, "cri")

        def is_given_back() -> None:
            assert set(snapshots.iterdir()) == before
            assert measure_free(ephemeral) > LEFT - SLACK

        eventually("the space is given back", is_given_back)
        # The program that unpacks has ended, and with it the archive: containerd has no other words for that.
        assert "unexpected EOF" in pull_as_kubelet(cluster, "images.example/team/bomb:1")
        eventually("the space is given back", is_given_back)
    finally:
        filler.unlink()


def pull_as_kubelet(cluster: Cluster, name: str) -> str:
    """Have containerd itself pull an image, and return the error of that."""
    socket = f"unix:{cluster.root()}/run/containerd/containerd.sock"
    with grpc.insecure_channel(socket, options=[("grpc.default_authority", "localhost")]) as channel:
        pull = cast("Callable[..., bytes]", channel.unary_unary("/runtime.v1.ImageService/PullImage"))
        with pytest.raises(grpc.RpcError) as caught:
            pull(encode({1: encode({1: name})}), timeout=120)
    return str(caught.value)


def measure_free(path: Path) -> int:
    """Bytes that are free on the disk of a folder."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


@pytest.mark.parametrize(
    ("reference", "reason", "code"),
    [
        ("images.example/team/none:1", "manifest 1: ", "NotFound"),
        ("images.example/Team/app", "'Team/app' is no repository", "InvalidArgument"),
        ("images.example/team/app@sha256:1", "what follows @ is no digest", "InvalidArgument"),
    ],
)
def test_an_image_that_is_not_there(
    cluster: Cluster, registry: Registry, reference: str, reason: str, code: str
) -> None:
    text = on_node(cluster, "image", "pull", reference, "--namespace", "system", check=False)
    assert reason in text
    assert f"code = {code} desc = " in text
    assert text.count("\n") == 1
    del registry


def test_both_instances_show_their_containers(cluster: Cluster) -> None:
    node = cluster.addresses[0]
    names = {row["ID"] for row in cluster.rows("-n", node, "containers")}
    assert {"apid", "networkd"} <= names
    assert cluster.rows("-n", node, "containers", "-k") == []
    text = on_node(cluster, "logs", "-k", "kube-system/none:x:123", check=False)
    assert 'container "kube-system/none:x:123" not found' in text
