"""GenerateClientConfiguration."""

from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.config.talosconfig.text import parse_talosconfig
from talos.machined.node.config_store import publish_config
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import parse_certificate
from talos.pki.keys import KeyType
from talos.resource import ids
from talos.resource.changes import modify
from talos.resource.kinds import OS_ROOT_SECRET

CONFIG = b"version: v1alpha1\nmachine:\n  type: controlplane\ncluster:\n  clusterName: demo\n"


@pytest.fixture
def authority() -> CertificateAuthority:
    return CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"])


async def prepare(caller: Any, authority: CertificateAuthority, config: bytes = CONFIG) -> None:
    await publish_config(caller.node.state, ids.MACHINE_CONFIG, config)

    def change(spec: Any) -> None:
        spec.issuing_ca.crt, spec.issuing_ca.key = authority.pem.crt, authority.pem.key

    await modify(caller.node.state, OS_ROOT_SECRET, "os", change)


async def call(caller: Any, *roles: str, seconds: int = 3600) -> Any:
    request = pb.GenerateClientConfigurationRequest(roles=roles, crt_ttl=Duration(seconds=seconds))
    return (await caller.call("GenerateClientConfiguration", request)).messages[0]


async def test_the_certificate_has_the_requested_roles_and_life(
    caller: Any, authority: CertificateAuthority
) -> None:
    await prepare(caller, authority)
    message = await call(caller, "os:reader")
    crt = parse_certificate(message.crt)
    crt.verify_directly_issued_by(authority.certificate)
    organizations = [str(part.value) for part in crt.subject if part.rfc4514_attribute_name == "O"]
    assert organizations == ["os:reader"]
    left = crt.not_valid_after_utc - datetime.now(UTC)
    assert 3500 < left.total_seconds() <= 3600
    assert b"ED25519 PRIVATE KEY" in message.key
    assert message.ca == authority.crt


async def test_the_talosconfig_holds_them(caller: Any, authority: CertificateAuthority) -> None:
    await prepare(caller, authority)
    message = await call(caller, "os:reader")
    file = parse_talosconfig(message.talosconfig)
    assert file.context == "reader@demo"
    context = file.current
    assert (context.ca, context.crt, context.key) == (message.ca, message.crt, message.key)
    several = parse_talosconfig((await call(caller, "os:reader", "os:admin")).talosconfig)
    assert several.context == "demo"


async def fail(caller: Any, **more: Any) -> tuple[Code, str]:
    with pytest.raises(RpcError) as caught:
        await call(caller, "os:admin", **more)
    return caught.value.code, caught.value.message


async def test_refusals(caller: Any, authority: CertificateAuthority) -> None:
    assert await fail(caller) == (
        Code.UNIMPLEMENTED,
        "machine type is not set, cannot use client configuration API",
    )
    await publish_config(caller.node.state, ids.MACHINE_CONFIG, CONFIG)
    assert (await fail(caller))[0] is Code.UNAVAILABLE
    await prepare(caller, authority)
    for seconds in (0, -5):
        assert await fail(caller, seconds=seconds) == (Code.INVALID_ARGUMENT, "crt_ttl should be positive")
    for seconds in (300_000_000_000, 2**62):
        assert (await fail(caller, seconds=seconds))[0] is Code.INVALID_ARGUMENT
    await publish_config(caller.node.state, ids.MACHINE_CONFIG, CONFIG.replace(b"controlplane", b"worker"))
    assert await fail(caller) == (
        Code.UNIMPLEMENTED,
        "client configuration is only available on control plane nodes",
    )
