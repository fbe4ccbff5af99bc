"""A test's own client of an API server."""

import pytest
from driver.kubernetes_api import find_path


@pytest.mark.parametrize(
    ("version", "kind", "namespace", "path"),
    [
        ("v1", "Namespace", "", "/api/v1/namespaces/one"),
        ("v1", "ServiceAccount", "here", "/api/v1/namespaces/here/serviceaccounts/one"),
        ("apps/v1", "Deployment", "here", "/apis/apps/v1/namespaces/here/deployments/one"),
        ("talos.dev/v1", "UpgradePolicy", "here", "/apis/talos.dev/v1/namespaces/here/upgradepolicies/one"),
    ],
)
def test_an_object_has_a_path(version: str, kind: str, namespace: str, path: str) -> None:
    metadata = {"name": "one", **({"namespace": namespace} if namespace else {})}
    assert find_path({"apiVersion": version, "kind": kind, "metadata": metadata}) == path
