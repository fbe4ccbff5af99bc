"""Signed images: found in all three places that cosign puts signatures, by the rules of the config."""

import hashlib
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.harness.registry import Registry, encode, running_registry
from tests.harness.rekor2 import Rekor2
from tests.harness.sigstore import ISSUER, SUBJECT, Sigstore
from tests.unit.machined.containerd.twin import MemoryContainerd
from tests.unit.machined.containerd.verify import verifier
from tests.unit.machined.containerd.verify.cosign import (
    BUNDLE,
    Image,
    WithReferrers,
    make_bundle,
    make_claim,
    make_image,
    make_keyless_annotations,
    make_keyless_bundle,
    make_rekor2_bundle,
    sign,
)
from tests.unit.machined.containerd.verify.verifier import make_verifier

from talos.api.definitions.cri_pb2 import RegistriesConfigSpec, RegistryEndpointConfig, RegistryMirrorConfig
from talos.api.definitions.security_pb2 import TUFTrustedRootSpec
from talos.api.rpc import Code, RpcError
from talos.config.documents.security.image_verification import ImageKeylessVerifier
from talos.images.reference import parse_reference
from talos.images.registry.hosts import Sources
from talos.images.rules import Rule, find_rule
from talos.machined.containerd.client import Containerd
from talos.machined.containerd.pull import VERIFIED_LABEL, pull_image
from talos.machined.containerd.verify import program, search
from talos.machined.containerd.verify.search import find_reasons
from talos.pki.keys import KeyType, PrivateKey, make_key, public_key_to_pem
from talos.resource import ids
from talos.resource.changes import put
from talos.system.process import Finished

NAME = "registry.example/team/app:1"
KEY, OTHER = make_key(KeyType.P256), make_key(KeyType.P256)
SIGSTORE = Sigstore()
REKOR2 = Rekor2()
ROOT, IDENTITY = encode(REKOR2.trust(SIGSTORE.trusted_root())).decode(), SIGSTORE.certify()


@pytest.fixture
def image() -> Image:
    return make_image()


@contextmanager
def serving(image: Image) -> Generator[Registry]:
    with running_registry(image.store, WithReferrers) as registry:
        yield registry


def make_rule(key: PrivateKey = KEY, **changes: Any) -> Rule:
    rule = Rule(number=0, pattern="registry.example/*", key=public_key_to_pem(key).decode())
    return replace(rule, **changes)


async def pull(registry: Registry, *rules: Rule) -> MemoryContainerd:
    endpoint = RegistryEndpointConfig(endpoint_endpoint=f"http://127.0.0.1:{registry.port}")
    mirror = RegistryMirrorConfig(mirror_endpoints=[endpoint], mirror_skip_fallback=True)
    registries = RegistriesConfigSpec(registry_mirrors={"*": mirror})
    sources = Sources(registries=registries, rules=rules)
    own = make_verifier()
    await put(own.state, *ids.TUF_TRUSTED_ROOT, TUFTrustedRootSpec(json_data=ROOT))
    twin = MemoryContainerd(unpack=lambda data: data)
    await pull_image(Containerd(cast("Any", twin), "system"), NAME, sources, root="/", verifier=own)
    return twin


async def refused(registry: Registry, *rules: Rule) -> str:
    with pytest.raises(RpcError) as caught:
        await pull(registry, *rules)
    assert caught.value.code is Code.PERMISSION_DENIED
    return caught.value.message


PLACES: Mapping[str, Callable[[Image, PrivateKey], None]] = {
    "referrer": lambda image, key: image.add_referrer(make_bundle(key, image.digest)),
    "tag": lambda image, key: image.add_bundle(make_bundle(key, image.digest)),
    "legacy": lambda image, key: image.add_legacy(key, make_claim(image.digest)),
}


@pytest.mark.parametrize("kind", KeyType)
@pytest.mark.parametrize("place", PLACES)
async def test_a_signed_image_is_pulled(image: Image, place: str, kind: KeyType) -> None:
    key = make_key(kind)
    PLACES[place](image, key)
    with serving(image) as registry:
        twin = await pull(registry, make_rule(key))
        assert list(twin.images) == [NAME]
        assert "not signed by the key" in await refused(registry, make_rule(OTHER))


WRONG: Sequence[tuple[Callable[[Image], None], str]] = [
    (lambda _: None, "it is not signed"),
    (lambda image: image.add_bundle(make_bundle(KEY, f"sha256:{'0' * 64}")), "of another image"),
    (lambda image: image.add_legacy(KEY, make_claim(f"sha256:{'0' * 64}")), "of another image"),
    (lambda image: image.add_legacy(KEY, b"[]"), "it is no JSON object"),
    (
        lambda image: image.add_bundle(make_bundle(KEY, image.digest, predicate="https://x/sbom")),
        "approve",
    ),
    (
        lambda image: image.add_bundle(make_bundle(KEY, image.digest, kind="x+json;version=0.1")),
        "not 0.3",
    ),
    (lambda image: image.add_bundle(encode({"mediaType": BUNDLE})), "without a signature"),
    (lambda image: image.add_bundle(bytes(1024 * 1024 + 1)), "a signature of 1048577 bytes"),
]


@pytest.mark.parametrize(("add", "text"), WRONG)
async def test_what_is_no_signature_of_it(image: Image, add: Callable[[Image], None], text: str) -> None:
    add(image)
    with serving(image) as registry:
        message = await refused(registry, make_rule())
    assert message.startswith("image verification failed: ")
    assert text in message
    assert "\n" not in message


async def test_a_bundle_takes_precedence_over_an_older_signature(image: Image) -> None:
    image.add_legacy(KEY, make_claim(image.digest))
    image.add_bundle(make_bundle(OTHER, image.digest))
    with serving(image) as registry:
        assert "not signed by the key" in await refused(registry, make_rule())


async def test_a_message_signature(image: Image) -> None:
    signature = {"signature": sign(KEY, image.store.blobs[image.digest])}
    image.add_bundle(encode({"mediaType": BUNDLE, "messageSignature": signature}))
    with serving(image) as registry:
        assert list((await pull(registry, make_rule())).images) == [NAME]


async def test_rules_without_signatures(image: Image) -> None:
    with serving(image) as registry:
        text = await refused(registry, make_rule(pattern="x/*"), make_rule(number=1, deny=True))
        assert text == "verification denied by matched rule (0001)"
        assert registry.requests == []
        assert list((await pull(registry, make_rule(skip=True), make_rule(deny=True))).images) == [NAME]
        assert list((await pull(registry, make_rule(pattern="other.example/*"))).images) == [NAME]


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("*", "nginx", True),
        ("docker.io/*", "nginx", True),
        ("index.docker.io/library/nginx", "nginx:1.2", True),
        ("docker.io/team/*", "index.docker.io/team/a", True),
        ("registry.example/*", "registry.example/a/b/c:1", True),
        ("registry.example/*", "Registry.Example/a", True),
        ("registry.example/*/c", "registry.example/a/b/c", True),
        ("registry.example/a", "registry.example/a/b", False),
        ("registry.example/a.c", "registry.example/abc", False),
        ("registry.example/?", "registry.example/a", False),
        ("ghcr.io/*", f"ghcr.io/a@sha256:{hashlib.sha256().hexdigest()}", True),
    ],
)
def test_patterns(pattern: str, name: str, *, matches: bool) -> None:
    rule = Rule(number=0, pattern=pattern)
    assert (find_rule([rule], parse_reference(name)) is rule) is matches


KEYLESS: Mapping[str, Callable[[Image], None]] = {
    "bundle referrer with digest sha256:": lambda image: image.add_referrer(
        encode(make_keyless_bundle(SIGSTORE, IDENTITY, image.digest))
    ),
    "bundle": lambda image: image.add_bundle(encode(make_keyless_bundle(SIGSTORE, IDENTITY, image.digest))),
    "legacy signature (bundle verified true)": lambda image: image.add_payload(
        make_claim(image.digest), make_keyless_annotations(SIGSTORE, IDENTITY, make_claim(image.digest))
    ),
}


@pytest.mark.parametrize("place", KEYLESS)
async def test_an_image_signed_by_an_identity_is_pulled(image: Image, place: str) -> None:
    KEYLESS[place](image)
    keyless = ImageKeylessVerifier(issuer=ISSUER, subject=SUBJECT)
    rule = Rule(number=0, pattern="*", keyless=keyless)
    with serving(image) as registry:
        twin = await pull(registry, rule)
        assert twin.image_labels[NAME][VERIFIED_LABEL].startswith(f"verified via {place}")
        other = replace(rule, keyless=replace(keyless, subject="somebody@example.org"))
        assert f"it is signed by '{SUBJECT}'" in await refused(registry, other)
        assert "not signed by the key" in await refused(registry, make_rule())


async def test_one_of_an_images_signatures_is_in_a_log_of_rekor_2(image: Image) -> None:
    # Each stands for itself: that of the one log is of an authority that is not trusted.
    foreign = Sigstore()
    image.add_referrer(encode(make_keyless_bundle(foreign, foreign.certify(), image.digest)))
    rule = Rule(number=0, pattern="*", keyless=ImageKeylessVerifier(issuer=ISSUER, subject=SUBJECT))
    with serving(image) as registry:
        assert "the log of its signature is not trusted" in await refused(registry, rule)
        image.add_referrer(encode(make_rekor2_bundle(REKOR2, IDENTITY, image.digest)))
        twin = await pull(registry, rule)
        second = image.list_referrers()[1]["digest"]
        assert twin.image_labels[NAME][VERIFIED_LABEL].endswith(f"referrer with digest {second}")


async def test_many_signatures_are_verified_by_two_programs(
    image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs: list[bytes] = []

    def verify(data: bytes) -> tuple[int, list[str]]:
        inputs.append(data)
        return program.verify(data)

    monkeypatch.setattr(verifier, "verify", verify)
    for key in (OTHER, OTHER, KEY, OTHER):
        image.add_referrer(make_bundle(key, image.digest))
    with serving(image) as registry:
        twin = await pull(registry, make_rule())
        referrer = image.list_referrers()[2]["digest"]
        assert twin.image_labels[NAME][VERIFIED_LABEL].endswith(f"referrer with digest {referrer}")
        assert [len(json.loads(one)["signatures"]) for one in inputs] == [1, 3]
        monkeypatch.setattr(search, "MAX_SIGNATURES", 2)
        assert "more than 2 signatures" in await refused(registry, make_rule())
        monkeypatch.setattr(search, "MAX_SIZE", 10)
        assert "or 10 bytes of them" in await refused(registry, make_rule())


async def test_a_program_that_fails_verifies_nothing(image: Image) -> None:
    texts = find_reasons(Finished(code=-9, stderr=b"Killed"))
    assert texts == ["/usr/sbin/verify-image failed with signal SIGKILL"]
    assert find_reasons(Finished(code=1)) == ["/usr/sbin/verify-image failed with exit code 1"]
    assert find_reasons(Finished(code=3)) == ["/usr/sbin/verify-image failed with exit code 3"]
    assert find_reasons(Finished(code=3, stderr=b"a\nb\x1b" + b"c" * 400)) == ["a", "b?" + "c" * 298]
    image.add_bundle(make_bundle(KEY, image.digest))
    with serving(image) as registry:
        assert "there is neither a key" in await refused(registry, Rule(number=0, pattern="*"))


async def test_a_pull_does_not_wait_for_ever_for_the_root_of_trust(
    image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "ROOT_TIMEOUT", 0)
    rule = Rule(number=0, pattern="*", keyless=ImageKeylessVerifier(issuer=ISSUER, subject=SUBJECT))
    with serving(image) as registry:
        assert "there is no trusted root" in await refused(registry, rule)
