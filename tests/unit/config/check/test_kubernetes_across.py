"""Versions of Kubernetes that don't work together, and networks that overlap, are named by their place."""

import pytest
from tests.unit.config.check.test_validate import messages

from talos.config.check.kubernetes_across import find_minor


def find(config: str, old: str, new: str) -> list[str]:
    assert old in config, old
    return [message.split(": ", 1)[1] for message in messages(config.replace(old, new, 1))]


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
            "KubeAPIServerConfig image: Kubernetes 1.20 is not supported by this version (1.32 to 1.37)",
        ),
        (
            "kubelet",
            "v1.38.0",
            "KubeletConfig image: Kubernetes 1.38 is not supported by this version (1.32 to 1.37)",
        ),
    ],
)
def test_versions_that_do_not_work_together(
    control_plane: str, program: str, tag: str, expected: str
) -> None:
    current = control_plane.split(f"/{program}:", 1)[1].split("\n", 1)[0]
    assert expected in find(control_plane, f"/{program}:{current}", f"/{program}:{tag}")


def test_a_worker_knows_which_kubelets_are_supported(worker: str) -> None:
    current = worker.split("/kubelet:", 1)[1].split("\n", 1)[0]
    expected = "KubeletConfig image: Kubernetes 1.31 is not supported by this version (1.32 to 1.37)"
    assert find(worker, f"/kubelet:{current}", "/kubelet:v1.31.9") == [expected]
    assert not find(worker, f"/kubelet:{current}", "/kubelet:v1.32.0")


def test_networks_that_overlap(worker: str) -> None:
    expected = (
        'KubeNetworkConfig serviceSubnets: "10.96.0.0/12" overlaps with the pods\' "10.100.0.0/16" '
        "(take networks apart from each other)"
    )
    assert find(worker, "10.244.0.0/16", "10.100.0.0/16") == [expected]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("type: Webhook", "webhook: is missing (the API server ends without it)"),
        ("type: Webhook\nwebhook: {}", "webhook: is missing (the API server ends without it)"),
        ("type: RBAC\nwebhook: {timeout: 3s}", "webhook: is for type: Webhook"),
    ],
)
def test_an_authorizer_without_what_it_needs(control_plane: str, body: str, expected: str) -> None:
    document = f"---\napiVersion: v1alpha1\nkind: KubeAuthorizerConfig\nname: hook\n{body}\n"
    found = [message.split(": ", 1)[1] for message in messages(control_plane + document)]
    assert found == [f"KubeAuthorizerConfig/hook {expected}"]


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
