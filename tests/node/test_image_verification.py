"""A node with rules pulls signed images only, and so does its kubelet; its own services go on."""

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import cast

import grpc
import pytest
from google.protobuf.message import Message
from tests.harness.cluster import Cluster, eventually
from tests.harness.registry import Registry, encode, running_registry
from tests.harness.rekor2 import Rekor2
from tests.harness.sigstore import ISSUER, SUBJECT, Sigstore
from tests.unit.machined.containerd.verify.cosign import (
    WithReferrers,
    make_bundle,
    make_image,
    make_rekor2_bundle,
)

from talos.api.containerd import cri_images_pb2 as cri
from talos.api.containerd import images_pb2
from talos.machined.api.pod_images import PULL, STATUS
from talos.machined.containerd.client import CRI_SOCKET
from talos.pki.keys import KeyType, make_key, public_key_to_pem
from talos.process.daemons import KUBELET_IMAGES

KEY = make_key(KeyType.P256)
SIGNED, DENIED = "signed.example/team/app:1", "denied.example/team/app:1"
IDENTIFIED, OTHER = "identified.example/team/app:1", "other.example/team/app:1"
VERIFICATION = {"apiVersion": "v1alpha1", "kind": "ImageVerificationConfig"}
TRUSTED_ROOT = {"apiVersion": "v1alpha1", "kind": "SigstoreTrustedRootConfig"}
PLACE = ("--namespace", "inmem")


@pytest.fixture
def registry(cluster: Cluster) -> Iterator[Registry]:
    """Has one image, signed with a key and by an identity; the node has rules for four names of it.

    The identity's signature is in a log of Rekor 2, with a timestamp: the confined program calls OpenSSL.
    """
    image, gateway, sigstore, rekor2 = make_image(), str(cluster.info.gateway), Sigstore(), Rekor2()
    image.add_referrer(make_bundle(KEY, image.digest))
    image.add_referrer(encode(make_rekor2_bundle(rekor2, sigstore.certify(), image.digest)))
    with running_registry(image.store, WithReferrers, host=gateway) as registry:
        endpoint = {"endpoints": [f"http://{gateway}:{registry.port}"], "skipFallback": True}
        pem = public_key_to_pem(KEY).decode()
        rules = {
            SIGNED: {"publicKey": {"certificate": pem}},
            DENIED: {"deny": True},
            IDENTIFIED: {"keyless": {"issuer": ISSUER, "subject": SUBJECT}},
            OTHER: {"keyless": {"issuer": ISSUER, "subjectRegex": "^other@"}},
        }
        hosts = {name: name.partition("/")[0] for name in rules}
        listed = [{"image": f"{hosts[name]}/*", **rule} for name, rule in rules.items()]
        patch(cluster, {"machine": {"registries": {"mirrors": dict.fromkeys(hosts.values(), endpoint)}}})
        patch(cluster, {**TRUSTED_ROOT, "trustedRoot": json.dumps(rekor2.trust(sigstore.trusted_root()))})
        patch(cluster, {**VERIFICATION, "rules": listed})

        def is_known() -> None:
            assert len(cluster.resource("imageverificationrules")) == len(rules)
            [found] = cluster.resource("registryconfigs.cri.talos.dev")
            assert hosts[OTHER] in str(found["spec"])

        eventually("the rules are known", is_known)
        yield registry
        patch(cluster, {**VERIFICATION, "$patch": "delete"})
        patch(cluster, {**TRUSTED_ROOT, "$patch": "delete"}, check=False)  # the test's end has done so


def patch(cluster: Cluster, document: dict[str, object], *, check: bool = True) -> None:
    on_node(cluster, "patch", "mc", "--patch", json.dumps(document), check=check)


def on_node(cluster: Cluster, *argv: str, check: bool = True) -> str:
    result = cluster.talosctl("-n", cluster.addresses[0], *argv, check=check)
    return result.stdout + result.stderr


def test_signed_images_are_pulled_and_others_are_not(cluster: Cluster, registry: Registry) -> None:
    for name in (SIGNED, IDENTIFIED):
        assert name in on_node(cluster, "image", "pull", name, *PLACE)
        on_node(cluster, "image", "remove", name, *PLACE)
    text = on_node(cluster, "image", "pull", OTHER, *PLACE, check=False)
    assert f"it is signed by '{SUBJECT}'" in text
    registry.requests.clear()
    text = on_node(cluster, "image", "pull", DENIED, *PLACE, check=False)
    assert "verification denied by matched rule (0001)" in text
    assert registry.requests == []
    patch(cluster, {**TRUSTED_ROOT, "$patch": "delete"})

    def is_refused() -> None:
        text = on_node(cluster, "image", "pull", IDENTIFIED, *PLACE, check=False)
        assert "the log of its signature is not trusted" in text

    eventually("Sigstore's public instance counts again", is_refused)


type Send = Callable[[str, Message], bytes]
REMOVE, LIST = (f"/runtime.v1.ImageService/{method}" for method in ("RemoveImage", "ListImages"))
GET = "/containerd.services.images.v1.Images/Get"


@contextmanager
def connect(cluster: Cluster, socket: str) -> Generator[Send]:
    """Calls on a socket of the node, whose replies are bytes."""
    path = f"unix:{cluster.root()}{socket}"
    with grpc.insecure_channel(path, options=[("grpc.default_authority", "localhost")]) as channel:

        def call(method: str, message: Message) -> bytes:
            send = cast("Callable[..., bytes]", channel.unary_unary(method))
            metadata = (("containerd-namespace", "k8s.io"),)
            return send(message.SerializeToString(), timeout=60, metadata=metadata)

        yield call


@pytest.fixture
def kubelet(cluster: Cluster) -> Iterator[Send]:
    with connect(cluster, KUBELET_IMAGES) as call:
        yield call


def find_id(kubelet: Send, name: str) -> str:
    """The id of an image that is there."""
    reply = kubelet(STATUS, cri.ImageStatusRequest(image=cri.ImageSpec(image=name)))
    return cri.ImageStatusResponse.FromString(reply).image.id


def pull_for_pod(kubelet: Send, name: str) -> str:
    """The id of an image, as the kubelet gets it."""
    reply = kubelet(PULL, cri.PullImageRequest(image=cri.ImageSpec(image=name)))
    return cri.PullImageResponse.FromString(reply).image_ref


def test_a_pods_signed_image_is_pulled_found_and_removed(
    cluster: Cluster, registry: Registry, kubelet: Send
) -> None:
    verified = f"{SIGNED.removesuffix(':1')}@{registry.store.tags['team/app', '1']}"
    image = pull_for_pod(kubelet, SIGNED)
    assert image
    for name in (SIGNED, verified):
        # Once more, as for a pod that always pulls.
        assert pull_for_pod(kubelet, name) == image
        assert find_id(kubelet, name) == find_id(kubelet, verified) == image
        with connect(cluster, CRI_SOCKET) as containerd:
            reply = containerd(GET, images_pb2.GetImageRequest(name=name))
        labels = images_pb2.GetImageResponse.FromString(reply).image.labels
        assert labels["talos.dev/verified"].startswith("verified via bundle referrer")
        assert labels["io.cri-containerd.image"] == "managed"
        assert verified.encode() in kubelet(LIST, cri.ImageSpec())
    kubelet(REMOVE, cri.ImageStatusRequest(image=cri.ImageSpec(image=image)))
    assert find_id(kubelet, SIGNED) == find_id(kubelet, verified) == ""


def test_a_pods_image_that_the_rules_refuse_is_not_pulled(registry: Registry, kubelet: Send) -> None:
    registry.requests.clear()
    for name, reason in (
        (OTHER, f"image verification failed: image {OTHER}: "),
        (DENIED, "verification denied by matched rule (0001)"),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            pull_for_pod(kubelet, name)
        error = cast("grpc.Call", caught.value)
        assert error.code() is grpc.StatusCode.PERMISSION_DENIED
        assert (error.details() or "").startswith(f'failed to verify image "{name}" with talos: {reason}')
        assert find_id(kubelet, name) == ""
    assert not [request for request in registry.requests if "denied.example" in request]


def test_a_pods_image_without_a_rule_is_pulled(cluster: Cluster, registry: Registry, kubelet: Send) -> None:
    del registry
    [found] = cluster.resource("etcdspecs")
    name = str(cast("dict[str, object]", found["spec"])["image"])
    image = pull_for_pod(kubelet, name)
    assert find_id(kubelet, name) == image
    with connect(cluster, CRI_SOCKET) as containerd:
        reply = containerd(GET, images_pb2.GetImageRequest(name=name))
    labels = images_pb2.GetImageResponse.FromString(reply).image.labels
    assert dict(labels) == {"io.cri-containerd.image": "managed"}
    kubelet(REMOVE, cri.ImageStatusRequest(image=cri.ImageSpec(image=image)))
