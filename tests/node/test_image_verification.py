"""A node with rules pulls signed images only; its own services go on."""

import json
from collections.abc import Iterator

import pytest
from tests.harness.cluster import Cluster, eventually
from tests.harness.registry import Registry, running_registry
from tests.unit.machined.containerd.verify.cosign import WithReferrers, make_bundle, make_image

from talos.pki.keys import KeyType, make_key, public_key_to_pem

KEY = make_key(KeyType.P256)
SIGNED, UNSIGNED = "signed.example/team/app:1", "denied.example/team/app:1"


@pytest.fixture
def registry(cluster: Cluster) -> Iterator[Registry]:
    """Has one image, which is signed; the node has rules for two names of it."""
    image, gateway = make_image(), str(cluster.info.gateway)
    image.add_referrer(make_bundle(KEY, image.digest))
    with running_registry(image.store, WithReferrers, host=gateway) as registry:
        endpoint = {"endpoints": [f"http://{gateway}:{registry.port}"], "skipFallback": True}
        hosts = [name.partition("/")[0] for name in (SIGNED, UNSIGNED)]
        mirrors = {"machine": {"registries": {"mirrors": dict.fromkeys(hosts, endpoint)}}}
        pem = public_key_to_pem(KEY).decode()
        rules = [
            {"image": f"{hosts[0]}/*", "publicKey": {"certificate": pem}},
            {"image": f"{hosts[1]}/*", "deny": True},
        ]
        document = {"apiVersion": "v1alpha1", "kind": "ImageVerificationConfig", "rules": rules}
        on_node(cluster, "patch", "mc", "--patch", json.dumps(mirrors))
        on_node(cluster, "patch", "mc", "--patch", json.dumps(document))

        def is_known() -> None:
            assert len(cluster.resource("imageverificationrules")) == len(rules)
            [found] = cluster.resource("registryconfigs.cri.talos.dev")
            assert hosts[1] in str(found["spec"])

        eventually("the rules are known", is_known)
        yield registry
        removal = {"apiVersion": "v1alpha1", "kind": "ImageVerificationConfig", "$patch": "delete"}
        on_node(cluster, "patch", "mc", "--patch", json.dumps(removal))


def on_node(cluster: Cluster, *argv: str, check: bool = True) -> str:
    result = cluster.talosctl("-n", cluster.addresses[0], *argv, check=check)
    return result.stdout + result.stderr


def test_signed_images_are_pulled_and_others_are_not(cluster: Cluster, registry: Registry) -> None:
    place = ("--namespace", "inmem")
    assert SIGNED in on_node(cluster, "image", "pull", SIGNED, *place)
    on_node(cluster, "image", "remove", SIGNED, *place)
    registry.requests.clear()
    text = on_node(cluster, "image", "pull", UNSIGNED, *place, check=False)
    assert "verification denied by matched rule (0001)" in text
    assert registry.requests == []
