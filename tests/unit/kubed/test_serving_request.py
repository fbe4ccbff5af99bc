"""A kubelet's serving certificate is approved only when all in its request belongs to its node."""

import base64
from typing import Any

import pytest

from talos.kubed.serving_names import NodeNames
from talos.kubed.serving_request import find_node, find_problem, is_decided
from talos.pki.csr import make_csr
from talos.pki.keys import KeyType, make_key

KNOWN = NodeNames(dns_names=frozenset({"one"}), ips=frozenset({"10.0.0.2", "fd00::2"}))
KEY = make_key(KeyType.P256)


def make_request(node: str = "one", **changes: Any) -> dict[str, Any]:
    names: dict[str, Any] = {"organizations": ["system:nodes"], "dns_names": ["one"], "ips": ["10.0.0.2"]}
    pem = make_csr(KEY, common_name=f"system:node:{node}", **{**names, **changes})
    return {
        "metadata": {"name": "csr-1"},
        "spec": {
            "signerName": "kubernetes.io/kubelet-serving",
            "username": "system:node:one",
            "groups": ["system:nodes", "system:authenticated"],
            "usages": ["digital signature", "server auth"],
            "request": base64.b64encode(pem).decode(),
        },
        "status": {},
    }


def test_a_request_of_the_node_for_its_names_is_approved() -> None:
    request = make_request(ips=["10.0.0.2", "fd00::2"])
    assert find_node(request) == "one"
    assert not find_problem(request, "one", KNOWN)
    assert not is_decided(request)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"ips": ["10.0.0.2", "10.0.0.3"]}, "the node is not known as 10.0.0.3"),
        ({"dns_names": ["one", "kubernetes.default"]}, "the node is not known as kubernetes.default"),
        ({"dns_names": [], "ips": []}, "neither a host nor an address"),
        ({"node": "two"}, "its subject is"),
        ({"organizations": ["system:nodes", "system:masters"]}, "its subject is"),
        ({"organizations": []}, "its subject is"),
    ],
)
def test_what_is_not_the_nodes_is_named(changes: dict[str, Any], text: str) -> None:
    assert text in find_problem(make_request(**changes), "one", KNOWN)


@pytest.mark.parametrize("usages", [["server auth", "client auth"], ["digital signature"], []])
def test_other_usages_are_refused(usages: list[str]) -> None:
    request = make_request()
    request["spec"]["usages"] = usages
    assert "usages" in find_problem(request, "one", KNOWN)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("username", "system:serviceaccount:default:x"),
        ("groups", ["system:authenticated"]),
        ("signerName", "kubernetes.io/kube-apiserver-client-kubelet"),
    ],
)
def test_only_kubelets_request(field: str, value: object) -> None:
    request = make_request()
    request["spec"][field] = value
    assert find_node(request) == ""


@pytest.mark.parametrize("text", ["", "!!!", base64.b64encode(b"nothing").decode()])
def test_what_is_no_request_is_refused(text: str) -> None:
    request = make_request()
    request["spec"]["request"] = text
    assert find_problem(request, "one", KNOWN)


def test_a_decision_is_seen() -> None:
    request = make_request()
    request["status"]["conditions"] = [{"type": "Denied"}]
    assert is_decided(request)
