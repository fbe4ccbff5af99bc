"""What a daemon sees of the machine config."""

from typing import Any

import pytest
from tests.unit.config.samples import ALL_KINDS, all_fields, make_plain

from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.api.rpc import Call
from talos.config.documents.registry import document_type
from talos.config.effective import api_server, kubernetes
from talos.config.effective import cluster as effective_cluster
from talos.config.effective import machine as effective_machine
from talos.config.generate.config import generate_config, render
from talos.config.generate.options import GenerateOptions
from talos.config.model import MachineType
from talos.config.read.loader import dump_plain, load
from talos.config.schema import Section, fields_of
from talos.config.secrets.bundle import SecretsBundle
from talos.process.config_view import make_view, withhold_secrets
from talos.process.daemons import CLUSTERD, KUBED, NETWORKD, UDEVD
from talos.resource import kinds
from talos.resource.resource import make_resource

CALL = Call(method="", metadata={}, deadline=0.0, peer="")


def secrets_of(value: Any) -> set[object]:
    """Everything secret or private in a config's sections."""
    if isinstance(value, Section):
        found: set[object] = set()
        for field in fields_of(type(value)).values():
            part = getattr(value, field.name)
            is_hidden = field.setting.secret or field.setting.private
            found |= {repr(part)} if is_hidden and part else secrets_of(part)
        return found
    if isinstance(value, tuple | list):
        return {secret for item in value for secret in secrets_of(item)}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {secret for item in value.values() for secret in secrets_of(item)}  # pyright: ignore[reportUnknownVariableType]
    return set()


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_every_kind_loads_without_its_secrets(kind: str) -> None:
    text = dump_plain([make_plain(kind)]).encode()
    (before,), (after,) = (load(one).documents for one in (text, withhold_secrets(text, ())))
    assert type(after) is type(before)
    assert not secrets_of(before) & secrets_of(after)
    settings = [field.setting for field in all_fields(document_type(kind)).values()]
    assert bool(secrets_of(before)) == any(setting.secret or setting.private for setting in settings)


async def test_a_daemon_sees_the_config_without_the_clusters_keys() -> None:
    options = GenerateOptions(
        cluster_name="demo", endpoint="https://10.0.0.1", secrets=SecretsBundle.generate()
    )
    wireguard = dump_plain([make_plain("WireguardConfig")])
    text = render(generate_config(options, MachineType.CONTROL_PLANE), docs=False, examples=False)
    config = load(f"{text}---\n{wireguard}")
    resource = make_resource(
        kinds.MACHINE_CONFIG,
        "v1alpha1",
        MachineConfigSpec(yaml_marshalled=f"{text}---\n{wireguard}".encode()),
    )
    secrets, own = secrets_of(config.documents), secrets_of(load(wireguard).documents)
    shared: set[object] = {repr(effective_cluster.cluster_secret(config))}
    for daemon, kept in ((UDEVD, set[object]()), (NETWORKD, own), (CLUSTERD, shared)):
        shown = (await make_view(daemon)(resource, CALL)).spec
        assert isinstance(shown, MachineConfigSpec)
        view = load(shown.yaml_marshalled)
        assert secrets & secrets_of(view.documents) == kept
        assert effective_machine.udev_rules(view) == effective_machine.udev_rules(config)
        assert [one.id for one in view.documents] == [one.id for one in config.documents]


async def test_what_cannot_be_read_is_not_shown() -> None:
    spec = MachineConfigSpec(yaml_marshalled=b"machine: [")
    shown = await make_view(UDEVD)(make_resource(kinds.MACHINE_CONFIG, "v1alpha1", spec), CALL)
    assert shown.spec == MachineConfigSpec()


def test_kubed_sees_what_it_makes_of_a_config() -> None:
    """Manifests with their headers and the environment of its programs are withheld from all others."""
    kinds_of_kubed = [kind for kind in ALL_KINDS if kind.startswith("Kube")]
    for text in (
        dump_plain([make_plain("")]),
        *(dump_plain([{"version": "v1alpha1"}, make_plain(kind)]) for kind in kinds_of_kubed),
    ):
        config, view, other = (
            load(one)
            for one in (
                text,
                withhold_secrets(text.encode(), KUBED.config_secrets),
                withhold_secrets(text.encode(), ()),
            )
        )
        for find in (
            kubernetes.api_server,
            kubernetes.controller_manager,
            kubernetes.scheduler,
            kubernetes.proxy,
            kubernetes.core_dns,
            kubernetes.flannel,
            kubernetes.extra_manifests,
            api_server.admission_plugins,
            api_server.audit_policy,
            api_server.authentication,
            api_server.authorizers,
            kubernetes.api_access,
        ):
            assert find(view) == find(config), find.__name__
        assert "hush" not in str(kubernetes.api_server(other).environment)
        assert not any(one.headers or "hush" in one.text for one in kubernetes.extra_manifests(other))
