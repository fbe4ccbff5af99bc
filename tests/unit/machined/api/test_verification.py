"""Verify: what the rules of the config decide of an image."""

from typing import Any

import pytest
import yaml
from tests.harness.registry import running_registry
from tests.unit.machined.containerd.verify.cosign import WithReferrers, make_bundle, make_image

from talos.api.definitions.cri_pb2 import RegistriesConfigSpec, RegistryEndpointConfig, RegistryMirrorConfig
from talos.api.machine.image_pb2 import ImageServiceVerifyRequest, ImageServiceVerifyResponse
from talos.api.rpc import Code, RpcError
from talos.config.read.loader import load
from talos.images.rules import make_rules
from talos.machined.controllers.security.image_verification import make_spec
from talos.machined.node.config_store import publish_config
from talos.pki.keys import KeyType, make_key, public_key_to_pem
from talos.resource import ids
from talos.resource.changes import put

KEY = make_key(KeyType.P256)
RULES = [
    {"image": "registry.example/team/*", "publicKey": {"certificate": public_key_to_pem(KEY).decode()}},
    {"image": "registry.example/free/*", "skip": True},
    {"image": "registry.example/old/*", "keyless": {"issuer": "https://a", "subjectRegex": "b"}},
    {"image": "registry.example/*", "deny": True},
]
CONFIG = yaml.safe_dump({"apiVersion": "v1alpha1", "kind": "ImageVerificationConfig", "rules": RULES})


async def verify(caller: Any, name: str) -> ImageServiceVerifyResponse:
    return await caller.call("Verify", ImageServiceVerifyRequest(image_ref=name), "machine.ImageService")


async def test_an_image_is_judged(caller: Any) -> None:
    image = make_image()
    with running_registry(image.store, WithReferrers) as registry:
        endpoint = RegistryEndpointConfig(endpoint_endpoint=f"http://127.0.0.1:{registry.port}")
        mirror = RegistryMirrorConfig(mirror_endpoints=[endpoint], mirror_skip_fallback=True)
        spec = RegistriesConfigSpec(registry_mirrors={"*": mirror})
        await put(caller.node.state, *ids.REGISTRY_CONFIG, spec)
        name = "registry.example/team/app:1"
        assert await verify(caller, name) == ImageServiceVerifyResponse(message="no matched rule")
        await publish_config(caller.node.state, ids.MACHINE_CONFIG, CONFIG.encode())
        assert await verify(caller, "registry.example/free/a") == ImageServiceVerifyResponse(
            message="verification skipped by matched rule (0001)"
        )
        for name_of, code, text in (
            ("registry.example/other", Code.PERMISSION_DENIED, r"denied by matched rule \(0003\)"),
            (name, Code.PERMISSION_DENIED, "it is not signed"),
            ("registry.example/team/none:1", Code.NOT_FOUND, "image reference not found during resolution"),
            ("registry.example/Team", Code.INVALID_ARGUMENT, "image reference is invalid"),
        ):
            with pytest.raises(RpcError, match=text) as caught:
                await verify(caller, name_of)
            assert caught.value.code is code
        image.add_referrer(make_bundle(KEY, image.digest))
        found = await verify(caller, name)
        assert (found.verified, found.digested_image_ref) == (
            True,
            f"registry.example/team/app@{image.digest}",
        )
        assert found.message.startswith("verified via bundle referrer with digest sha256:")


def test_rules_are_resources() -> None:
    specs = {rule.id: make_spec(rule) for rule in make_rules(load(CONFIG.encode()))}
    assert list(specs) == ["0000", "0001", "0002", "0003"]
    assert specs["0000"].public_key_verifier.certificate.startswith("-----BEGIN PUBLIC KEY")
    assert specs["0002"].keyless_verifier.subject_regex == "b"
    assert (specs["0003"].image_pattern, specs["0003"].deny) == ("registry.example/*", True)
    assert make_rules(None) == ()
