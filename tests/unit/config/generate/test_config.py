import base64
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.config import yaml_text

from talos.config.check.validate import Mode, validate
from talos.config.generate.config import generate_config, generate_talosconfig, render
from talos.config.generate.options import GenerateOptions, parse_endpoint
from talos.config.model import MachineType
from talos.config.read.loader import dump, load
from talos.config.secrets.bundle import SecretsBundle
from talos.pki.certificate import parse_certificate
from talos.pki.names import organizations_of
from talos.system.errors import UserError

COMMON = [
    "DiscoveryServiceConfig/default",
    "DiscoveryIdentityConfig",
    "UnattendedInstallConfig",
    "ResolverConfig",
    "VolumeConfig/EPHEMERAL",
    "FilesystemTrimConfig",
    "SecurityProfileConfig",
    "HostnameConfig",
    "KubeClusterConfig",
    "KubeNodeConfig",
    "KubeletConfig",
    "KubeNetworkConfig",
    "KubeAPIServerCAConfig",
    "KubePrismConfig",
]
CONTROL_PLANE_ONLY = [
    "KubeAggregatorCAConfig",
    "KubeAdmissionControlConfig/PodSecurity",
    "KubeAuditPolicyConfig",
    "KubeAuthenticationConfig",
    "KubeAuthorizerConfig/node",
    "KubeAuthorizerConfig/rbac",
    "KubeEtcdEncryptionConfig",
    "KubeServiceAccountConfig",
    "KubeAPIServerConfig",
    "KubeControllerManagerConfig",
    "KubeSchedulerConfig",
    "KubeProxyConfig",
    "KubeFlannelCNIConfig",
    "KubeCoreDNSConfig",
]


def ids(text: str) -> list[str]:
    return [document.id for document in load(text).documents]


def documents(text: str) -> dict[str, Any]:
    return {
        "/".join(str(document[key]) for key in ("kind", "name") if key in document) or "main": document
        for document in yaml_text.read_all(text)
    }


def test_documents_stand_in_upstreams_order(control_plane: str, worker: str) -> None:
    assert ids(control_plane) == ["v1alpha1", *COMMON, *CONTROL_PLANE_ONLY]
    assert ids(worker) == ["v1alpha1", *COMMON]


def test_keys_stand_in_upstreams_order(control_plane: str, bundle: SecretsBundle) -> None:
    main = documents(control_plane)["main"]
    assert list(main) == ["version", "debug", "persist", "machine", "cluster"]
    assert list(main["machine"]) == ["type", "token", "ca", "certSANs", "features"]
    assert main["machine"]["certSANs"] == []
    assert main["machine"]["features"] == {"diskQuotaSupport": True}
    assert list(main["cluster"]) == ["token", "etcd"]
    assert main["machine"]["token"] == bundle.trustd_token
    assert base64.b64decode(main["cluster"]["etcd"]["ca"]["key"]).startswith(b"-----BEGIN EC PRIVATE KEY")
    assert base64.b64decode(main["machine"]["ca"]["key"]).startswith(b"-----BEGIN ED25519 PRIVATE KEY")


def test_a_worker_learns_no_authoritys_key(worker: str, bundle: SecretsBundle) -> None:
    main = documents(worker)["main"]
    assert main["machine"]["ca"] == {"crt": base64.b64encode(bundle.os.crt).decode(), "key": ""}
    assert list(main["cluster"]) == ["token"]
    assert documents(worker)["KubeAPIServerCAConfig"]["acceptedCAs"] == [bundle.kubernetes.crt.decode()]
    assert "PRIVATE KEY" not in worker


def test_values_are_upstreams(control_plane: str) -> None:
    found = documents(control_plane)
    assert found["KubeClusterConfig"]["endpoint"] == "https://10.0.0.1"
    assert found["UnattendedInstallConfig"]["provisioning"] == {
        "diskSelector": {"match": 'disk.dev_path == "/dev/sda"'},
        "wipe": False,
    }
    assert found["KubeNodeConfig"]["taints"] == {"node-role.kubernetes.io/control-plane": "NoSchedule"}
    assert found["KubeletConfig"]["image"] == "ghcr.io/siderolabs/kubelet:v1.37.0-rc.1"
    assert found["KubeNetworkConfig"]["podSubnets"] == ["10.244.0.0/16"]
    assert found["KubeFlannelCNIConfig"]["backendPort"] == 4789
    assert found["ResolverConfig"]["hostDNS"] == {"enabled": True, "forwardKubeDNSToHost": True}
    assert found["KubeServiceAccountConfig"]["issuer"]["privateKey"].startswith("-----BEGIN RSA PRIVATE KEY")


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("which", ["control_plane", "worker"])
def test_generated_config_is_valid(which: str, mode: Mode, request: pytest.FixtureRequest) -> None:
    config = load(request.getfixturevalue(which))
    report = validate(config, mode)
    assert report.errors == ()
    assert report.warnings == ()
    assert dump(config) == request.getfixturevalue(which)


def test_remarks_change_nothing(options: GenerateOptions, control_plane: str) -> None:
    config = generate_config(options, MachineType.CONTROL_PLANE)
    text = render(config)
    assert load(text) == load(control_plane)
    assert "type: controlplane # Role of the machine in the cluster" in text
    assert "# logging:" in text
    assert "#" not in render(config, docs=False, examples=False)


def test_examples_are_right_once_they_are_no_comments(options: GenerateOptions) -> None:
    """But the fixed name beside the derived one: the two are alternatives."""
    text = render(generate_config(options, MachineType.CONTROL_PLANE), docs=False)
    assert sum("# " in line for line in text.splitlines()) > 20
    assert [error.path for error in validate(load(text.replace("# ", "")), Mode.METAL).errors] == ["hostname"]


def test_options_change_the_documents(options: GenerateOptions) -> None:
    changed = replace(
        options,
        endpoint="https://[fd00::1]:6443",
        additional_sans=["a.example.com"],
        install_disk="",
        registry_mirrors=["docker.io=http://10.0.0.5:5000", "ghcr.io=http://m", "docker.io=http://n"],
        with_kubespan=True,
        with_cluster_discovery=False,
        kube_prism_port=0,
        custom_cni_url="https://example.com/cni.yaml",
        allow_scheduling_on_control_planes=True,
    )
    found = documents(render(generate_config(changed, MachineType.CONTROL_PLANE)))
    assert {
        "DiscoveryServiceConfig/default",
        "UnattendedInstallConfig",
        "KubePrismConfig",
        "KubeFlannelCNIConfig",
    }.isdisjoint(found)
    assert found["KubeClusterConfig"]["endpoint"] == "https://[fd00::1]:6443"
    assert found["KubeNetworkConfig"]["podSubnets"] == ["10.244.0.0/16"]
    assert found["KubeNetworkConfig"]["serviceSubnets"] == ["10.96.0.0/12"]
    assert found["main"]["machine"]["certSANs"] == ["a.example.com"]
    assert found["KubeAPIServerConfig"]["certExtraSANs"] == ["a.example.com"]
    assert [endpoint["url"] for endpoint in found["RegistryMirrorConfig/docker.io"]["endpoints"]] == [
        "http://10.0.0.5:5000",
        "http://n",
    ]
    assert found["KubeSpanConfig"]["enabled"] is True
    assert "taints" not in found["KubeNodeConfig"]
    assert list(found)[-1] == "KubeExternalManifestConfig/custom-cni"


def test_without_kubernetes(options: GenerateOptions) -> None:
    config = generate_config(replace(options, kubernetes=False), MachineType.CONTROL_PLANE)
    assert not any(document.kind.startswith("Kube") for document in config.documents)
    assert config.cluster is not None
    assert config.cluster.token is None
    assert config.cluster.etcd is None
    assert validate(load(dump(config)), Mode.CONTAINER).errors == ()


def test_talosconfig_has_a_years_admin(options: GenerateOptions, bundle: SecretsBundle) -> None:
    config = generate_talosconfig(options)
    context = config.current
    assert config.context == "demo"
    assert context.endpoints == ()
    certificate = parse_certificate(context.crt)
    certificate.verify_directly_issued_by(parse_certificate(bundle.os.crt))
    assert organizations_of(certificate.subject) == ["os:admin"]
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc == timedelta(hours=8760)
    assert context.key.startswith(b"-----BEGIN ED25519 PRIVATE KEY")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"endpoint": "10.0.0.1"},
            'cluster endpoint: "10.0.0.1" is no endpoint (try: "https://10.0.0.1:6443")',
        ),
        (
            {"endpoint": "http://10.0.0.1"},
            'cluster endpoint: "http://10.0.0.1" is no endpoint (try: "https://10.0.0.1:6443")',
        ),
        ({"cluster_name": ""}, "the cluster needs a name"),
        (
            {"registry_mirrors": ["docker.io"]},
            '--registry-mirror: "docker.io" is no registry mirror (such as docker.io=http://10.0.0.1:5000)',
        ),
    ],
)
def test_wrong_options_are_refused(options: GenerateOptions, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as raised:
        generate_config(replace(options, **changes), MachineType.WORKER)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    "text", ["https://k.example.com", "https://k.example.com:443", "https://k.example.com/x"]
)
def test_endpoint_is_taken_as_it_is_written(text: str) -> None:
    assert parse_endpoint(text) == text
