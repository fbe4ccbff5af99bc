"""A node with rules pulls signed images only; its own services go on."""

import json
from collections.abc import Iterator

import pytest
from tests.harness.cluster import Cluster, eventually
from tests.harness.registry import Registry, encode, running_registry
from tests.harness.sigstore import ISSUER, SUBJECT, Sigstore
from tests.unit.machined.containerd.verify.cosign import (
    WithReferrers,
    make_bundle,
    make_image,
    make_keyless_bundle,
)

from talos.pki.keys import KeyType, make_key, public_key_to_pem

KEY = make_key(KeyType.P256)
SIGNED, DENIED = "signed.example/team/app:1", "denied.example/team/app:1"
IDENTIFIED, OTHER = "identified.example/team/app:1", "other.example/team/app:1"
VERIFICATION = {"apiVersion": "v1alpha1", "kind": "ImageVerificationConfig"}
TRUSTED_ROOT = {"apiVersion": "v1alpha1", "kind": "SigstoreTrustedRootConfig"}
PLACE = ("--namespace", "inmem")


@pytest.fixture
def registry(cluster: Cluster) -> Iterator[Registry]:
    """Has one image, signed with a key and by an identity; the node has rules for four names of it."""
    image, gateway, sigstore = make_image(), str(cluster.info.gateway), Sigstore()
    image.add_referrer(make_bundle(KEY, image.digest))
    image.add_referrer(encode(make_keyless_bundle(sigstore, sigstore.certify(), image.digest)))
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
        patch(cluster, {**TRUSTED_ROOT, "trustedRoot": json.dumps(sigstore.trusted_root())})
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
