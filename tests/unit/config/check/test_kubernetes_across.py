"""Versions of Kubernetes that don't work together, and networks that overlap, are named by their place."""

from dataclasses import replace

import pytest
from tests.unit.config.check.test_validate import messages

from talos.config.check.kubernetes_across import find_minor
from talos.config.check.validate import Mode, check
from talos.config.contract import parse_contract
from talos.config.generate.config import generate_config, render
from talos.config.generate.options import GenerateOptions
from talos.config.model import MachineType
from talos.config.problem import ConfigError
from talos.config.read.loader import load


@pytest.fixture(scope="module")
def old_control_plane(options: GenerateOptions) -> str:
    """A control plane node's config in one document, as before v1.15."""
    options = replace(options, contract=parse_contract("v1.9"))
    return render(generate_config(options, MachineType.CONTROL_PLANE), docs=False, examples=False)


def find(config: str, old: str, new: str) -> list[str]:
    assert old in config, old
    return [message.split(": ", 1)[1] for message in messages(config.replace(old, new, 1))]


def find_versions(config: str, old: str, new: str) -> list[str]:
    """What a node refuses; a client's check of the config has no error."""
    assert old in config, old
    changed = config.replace(old, new, 1)
    assert not messages(changed)
    try:
        check(load(changed), Mode.CONTAINER)
    except ConfigError as error:
        return [str(problem).split(": ", 1)[1] for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("program", "tag", "expected"),
    [
        (
            "kubelet",
            "v1.33.5",
            "KubeletConfig image: the kubelet 1.33 does not work with kube-apiserver 1.37 (1.34 to 1.37)",
        ),
        (
            "kube-scheduler",
            "v1.35.0",
            (
                "KubeSchedulerConfig image: "
                "kube-scheduler 1.35 does not work with kube-apiserver 1.37 (1.36 to 1.37)"
            ),
        ),
        (
            "kube-apiserver",
            "v1.36.3@sha256:0123456789012345678901234567890123456789012345678901234567890123",
            "KubeletConfig image: the kubelet 1.37 does not work with kube-apiserver 1.36 (1.33 to 1.36)",
        ),
        (
            "kube-apiserver",
            "v1.20.0",
            (
                "KubeAPIServerConfig image: "
                "version of Kubernetes 1.20 is too old to be used with Talos 1.15 (1.32 to 1.37)"
            ),
        ),
        (
            "kubelet",
            "v1.38.0",
            (
                "KubeletConfig image: "
                "version of Kubernetes 1.38 is too new to be used with Talos 1.15 (1.32 to 1.37)"
            ),
        ),
    ],
)
def test_versions_that_do_not_work_together(
    control_plane: str, program: str, tag: str, expected: str
) -> None:
    current = control_plane.split(f"/{program}:", 1)[1].split("\n", 1)[0]
    assert expected in find_versions(control_plane, f"/{program}:{current}", f"/{program}:{tag}")


def test_a_worker_knows_which_kubelets_are_supported(worker: str) -> None:
    current = worker.split("/kubelet:", 1)[1].split("\n", 1)[0]
    expected = (
        "KubeletConfig image: version of Kubernetes 1.31 is too old to be used with Talos 1.15 (1.32 to 1.37)"
    )
    assert find_versions(worker, f"/kubelet:{current}", "/kubelet:v1.31.9") == [expected]
    assert not find_versions(worker, f"/kubelet:{current}", "/kubelet:v1.32.0")


def test_networks_that_overlap(worker: str) -> None:
    expected = (
        'KubeNetworkConfig serviceSubnets: "10.96.0.0/12" overlaps with the pods\' "10.100.0.0/16" '
        "(take networks apart from each other)"
    )
    assert find(worker, "10.244.0.0/16", "10.100.0.0/16") == [expected]


@pytest.mark.parametrize(
    ("services", "expected"),
    [
        ("banana", '"banana" is no prefix (such as 10.244.0.0/16)'),
        ("10.96.0.0/33", '"10.96.0.0/33" is no prefix (such as 10.244.0.0/16)'),
        ("10.0.0.0/8", '"10.0.0.0/8" is too large (at least /12)'),
        (
            "10.96.0.0/29",
            '"10.96.0.0/29" is too small: the cluster\'s DNS server has its address 10 (/28 at most)',
        ),
        (
            "fd00::/125",
            '"fd00::/125" is too small: the cluster\'s DNS server has its address 10 (/124 at most)',
        ),
    ],
)
def test_networks_that_no_cluster_can_have(
    control_plane: str, old_control_plane: str, services: str, expected: str
) -> None:
    assert f"cluster.network.serviceSubnets[0]: {expected}" in find(
        old_control_plane, "10.96.0.0/12", services
    )
    if "no prefix" not in expected:  # the newer document's field is one
        assert f"KubeNetworkConfig serviceSubnets[0]: {expected}" in find(
            control_plane, "10.96.0.0/12", services
        )


def test_the_smallest_network_of_services(control_plane: str, old_control_plane: str) -> None:
    for config in (control_plane, old_control_plane):
        assert not find(config, "10.96.0.0/12", "10.96.0.0/28")


def test_bits_beyond_a_network_are_let_pass_where_they_always_were(old_control_plane: str) -> None:
    assert not find(old_control_plane, "10.244.0.0/16", "10.244.0.1/16")


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (
            "{spec: {containers: [{name: a, image: b}]}}",
            ["apiVersion: is not v1", "kind: is not Pod", "metadata.name: is no name of an object"],
        ),
        ("{apiVersion: v1, kind: Pod, metadata: web}", ["metadata: expected a mapping"]),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: Web_1}, spec: {containers: [{name: a}]}}",
            ["metadata.name: is no name of an object", "spec.containers[0].image: is missing"],
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: banana}}",
            ["spec.containers: expected a list"],
        ),
        ("{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {}}", ["spec.containers: is empty"]),
        (
            (
                "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {a: 1}}, spec: {"
                "hostNetwork: 'yes', containers: [{env: [{name: A, value: 1}], "
                "ports: [{containerPort: '80'}], args: [x, 7], "
                "resources: {limits: {cpu: 1, memory: true}}, livenessProbe: {httpGet: {port: http}}}]}}"
            ),
            [
                'metadata.labels.a: expected a text (write it as "…")',
                "spec.hostNetwork: expected true or false",
                'spec.containers[0].env[0].value: expected a text (write it as "…")',
                "spec.containers[0].ports[0].containerPort: expected a whole number",
                'spec.containers[0].args[1]: expected a text (write it as "…")',
                "spec.containers[0].resources.limits.memory: expected a quantity",
            ],
        ),
        (
            (
                "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {affinity: {podAffinity: {}}, "
                "volumes: [{name: a, hostPath: {path: /var}}], containers: [{name: a, image: b, "
                "command: null, "
                "resources: {requests: {cpu: 0.5, memory: 1Gi}}, startupProbe: {tcpSocket: {port: 80}}}]}}"
            ),
            [],
        ),
    ],
)
def test_a_static_pod_that_is_none(
    control_plane: str, old_control_plane: str, pod: str, expected: list[str]
) -> None:
    document = f"---\napiVersion: v1alpha1\nkind: KubeStaticPodConfig\nname: web\npod: {pod}\n"
    found = [message.split(": ", 1)[1] for message in messages(control_plane + document)]
    old = find(old_control_plane, "machine:\n", f"machine:\n    pods: [{pod}]\n")
    for places in (found, old):
        assert len(places) == len(expected)
        assert all(text in place for text, place in zip(expected, places, strict=True))


def test_the_names_of_the_control_planes_pods_are_taken(control_plane: str, old_control_plane: str) -> None:
    pod = (
        "{apiVersion: v1, kind: Pod, metadata: {name: kube-scheduler, namespace: kube-system}, "
        "spec: {containers: [{name: a, image: b}]}}"
    )
    document = f"---\napiVersion: v1alpha1\nkind: KubeStaticPodConfig\nname: kube-apiserver\npod: {pod}\n"
    old = find(old_control_plane, "machine:\n", f"machine:\n    pods: [{pod}]\n")
    taken = "is that of a control plane's pod (name it otherwise)"
    assert messages(control_plane + document)[0].endswith(f"KubeStaticPodConfig/kube-apiserver name: {taken}")
    for found in (messages(control_plane + document)[1:], old):
        assert len(found) == 1
        assert found[0].endswith(f"metadata.name: {taken}")


def test_two_static_pods_have_two_names(control_plane: str) -> None:
    spec = "{containers: [{name: a, image: b}]}"

    def make(document: str, metadata: str) -> str:
        pod = f"{{apiVersion: v1, kind: Pod, metadata: {metadata}, spec: {spec}}}"
        return f"---\napiVersion: v1alpha1\nkind: KubeStaticPodConfig\nname: {document}\npod: {pod}\n"

    first, apart = make("one", "{name: web}"), make("two", "{name: web, namespace: kube-system}")
    assert messages(control_plane + first + apart) == []
    (text,) = messages(control_plane + first + apart + make("three", "{name: web, namespace: default}"))
    place = "KubeStaticPodConfig/three pod.metadata.name"
    assert text.endswith(f'{place}: "web" is there already in the namespace "default" (name it otherwise)')


AGAIN = 'type: "%s" is there already (several may be of type Webhook only)'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("type: Webhook", ["webhook: is missing (the API server ends without it)"]),
        ("type: Webhook\nwebhook: {}", ["webhook: is missing (the API server ends without it)"]),
        ("type: Webhook\nwebhook: {timeout: 3s}", []),
        ("type: RBAC\nwebhook: {timeout: 3s}", ["webhook: is for type: Webhook", AGAIN % "RBAC"]),
        ("type: Node", [AGAIN % "Node"]),
    ],
)
def test_an_authorizer_that_the_api_server_refuses(
    control_plane: str, body: str, expected: list[str]
) -> None:
    document = f"---\napiVersion: v1alpha1\nkind: KubeAuthorizerConfig\nname: hook\n{body}\n"
    found = [message.split(": ", 1)[1] for message in messages(control_plane + document)]
    assert sorted(found) == sorted(f"KubeAuthorizerConfig/hook {text}" for text in expected)


@pytest.mark.parametrize(
    ("image", "minor"),
    [
        ("registry.k8s.io/kube-apiserver:v1.37.1", (1, 37)),
        ("host:5000/kube-apiserver:1.37.1-custom.2", (1, 37)),
        ("host:5000/kube-apiserver", None),
        ("registry.k8s.io/kube-apiserver@sha256:1.37.1", None),
        ("registry.k8s.io/kube-apiserver:latest", None),
        ("", None),
    ],
)
def test_a_tag_that_is_no_version_is_not_judged(image: str, minor: tuple[int, int] | None) -> None:
    assert find_minor(image) == minor
