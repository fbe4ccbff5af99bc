"""Pods get access to the nodes' API: as their namespace and its roles allow, and by the service `talos`."""

import base64
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.harness.cluster import eventually
from tests.harness.kubernetes import Kubernetes
from tests.kubernetes.objects import IMAGE
from tests.kubernetes.test_manifests import change

from talos.talosctl.cli.exit import Exit

ACCESS = {
    "apiVersion": "v1alpha1",
    "kind": "KubeTalosAPIAccessConfig",
    "allowedRoles": ["os:reader"],
    "allowedKubernetesNamespaces": ["default"],
}
ACCOUNTS = "serviceaccounts.talos.dev"


def make_account(name: str, role: str, namespace: str = "default") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "talos.dev/v1alpha1",
        "kind": "ServiceAccount",
        "metadata": metadata,
        "spec": {"roles": [role]},
    }


@pytest.fixture(scope="module")
def access(kubernetes: Kubernetes) -> Iterator[Kubernetes]:
    change(kubernetes, ACCESS)

    def is_there() -> None:
        found = kubernetes.kubectl("get", ACCOUNTS, check=False)
        assert found.returncode == 0, found.stderr

    eventually("there are accounts", is_there, pause=0.5)
    yield kubernetes
    kubernetes.kubectl("delete", ACCOUNTS, "--all", "--all-namespaces")
    change(kubernetes, {"apiVersion": "v1alpha1", "kind": ACCESS["kind"], "$patch": "delete"})


def read_talosconfig(kubernetes: Kubernetes, name: str) -> dict[str, Any]:
    def is_there() -> dict[str, Any]:
        found = kubernetes.kubectl("get", "secret", name, "-o", "json", check=False)
        assert found.returncode == 0, found.stderr
        return yaml.safe_load(found.stdout)

    secret = eventually(f"the secret {name} is there", is_there, pause=0.5)
    return yaml.safe_load(base64.b64decode(secret["data"]["config"]))


def test_an_account_gets_a_talosconfig_with_its_roles(access: Kubernetes) -> None:
    access.apply(make_account("reader", "os:reader"))
    config = read_talosconfig(access, "reader")
    context = config["contexts"][config["context"]]
    assert context["endpoints"] == ["talos.default"]
    file = access.kubeconfig.parent / "pod-talosconfig"
    file.write_text(yaml.safe_dump(config))
    node = access.cluster.addresses[0]
    argv = ("--talosconfig", str(file), "-e", node, "-n", node)
    assert "Tag:" in access.cluster.talosctl("version", *argv).stdout
    refused = access.cluster.talosctl("reboot", *argv, check=False)
    assert refused.returncode == Exit.REFUSED
    assert "not authorized" in refused.stderr

    # A pod reaches the API by a name that is in the node's certificate.
    trust = ssl.create_default_context(cadata=base64.b64decode(context["ca"]).decode())
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT

    def is_named() -> None:
        try:
            with socket.create_connection((node, 50000), timeout=5) as plain:
                trust.wrap_socket(plain, server_hostname="talos.default").close()
        except ssl.SSLCertVerificationError as error:
            raise AssertionError(error.verify_message) from None

    eventually("the certificate has the service's name", is_named, pause=0.5)


def test_the_service_leads_to_the_control_plane(access: Kubernetes) -> None:
    command = "for i in $(seq 30); do nc -w 2 talos.default 50000 </dev/null && exit 0; sleep 1; done; exit 1"
    container = {"name": "client", "image": IMAGE, "command": ["sh", "-c", command]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    access.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"}, "spec": spec})

    def has_reached() -> None:
        (pod,) = access.get("pod", "client")
        assert pod["status"]["phase"] == "Succeeded", pod["status"]

    eventually("a pod reaches the API", has_reached, seconds=90, pause=1)
    access.kubectl("delete", "pod", "client", "--wait=false")
    slices = access.get("endpointslices", "-l", "kubernetes.io/service-name=talos")
    addresses = [one["addresses"] for found in slices for one in found["endpoints"]]
    assert addresses == [[access.cluster.addresses[0]]]


@pytest.mark.parametrize(
    ("account", "reason", "message"),
    [
        (make_account("admin", "os:admin"), "ErrRolesNotAllowed", "Roles not allowed: [os:admin]"),
        (
            make_account("elsewhere", "os:reader", "kube-public"),
            "ErrNamespaceNotAllowed",
            "Namespace is not allowed: kube-public",
        ),
    ],
)
def test_what_is_not_allowed_is_refused_with_the_reason(
    access: Kubernetes, account: dict[str, Any], reason: str, message: str
) -> None:
    access.apply(account)
    name, namespace = account["metadata"]["name"], account["metadata"]["namespace"]

    def is_refused() -> None:
        (found,) = access.get(ACCOUNTS, name, "-n", namespace)
        assert found.get("status", {}).get("failureReason") == message
        events = access.get("events", "-n", namespace, "--field-selector", f"reason={reason}")
        assert [one["message"] for one in events if one["involvedObject"]["name"] == name] == [message]

    eventually("the account is refused", is_refused, pause=0.5)
    assert access.kubectl("get", "secret", name, "-n", namespace, check=False).returncode != 0


def test_a_secret_of_another_owner_stays(access: Kubernetes) -> None:
    metadata = {"name": "mine", "namespace": "default"}
    access.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"config": "mine"}}
    )
    access.apply(make_account("mine", "os:reader"))

    def is_refused() -> None:
        (found,) = access.get(ACCOUNTS, "mine")
        assert "already exists" in found.get("status", {}).get("failureReason", "")

    eventually("the account is refused", is_refused, pause=0.5)
    (found,) = access.get("secret", "mine")
    assert base64.b64decode(found["data"]["config"]) == b"mine"
    access.kubectl("delete", "secret", "mine")


def test_what_the_config_withdraws_is_gone(access: Kubernetes) -> None:
    access.apply(make_account("reader", "os:reader"))
    read_talosconfig(access, "reader")
    # Lists are joined by a patch: the whole document is replaced.
    gone = {"apiVersion": "v1alpha1", "kind": ACCESS["kind"], "$patch": "delete"}
    change(access, gone)
    change(access, {**ACCESS, "allowedKubernetesNamespaces": ["kube-system"]})

    def is_gone() -> None:
        assert access.kubectl("get", "secret", "reader", check=False).returncode != 0

    eventually("the secret is gone", is_gone, pause=0.5)
