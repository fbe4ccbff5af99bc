"""The firewall of a node, from outside: what it closes, and that a trial opens it again."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.harness.cluster import Cluster, eventually

API, TRUSTD = 50000, 50001
BLOCK = "apiVersion: v1alpha1\nkind: NetworkDefaultActionConfig\ningress: block\n"
RULE = """---
apiVersion: v1alpha1
kind: NetworkRuleConfig
name: api
portSelector: {ports: [50000], protocol: tcp}
ingress: [{subnet: 10.0.0.0/8}]
"""
REMOVAL = """apiVersion: v1alpha1
kind: NetworkDefaultActionConfig
$patch: delete
---
apiVersion: v1alpha1
kind: NetworkRuleConfig
name: api
$patch: delete
"""
ANSWER = 1.0
"""Seconds after which a port counts as closed: the kernel answers in a thousandth of that."""


def is_open(cluster: Cluster, port: int) -> bool:
    try:
        socket.create_connection((cluster.addresses[0], port), timeout=ANSWER).close()
    except TimeoutError:
        return False
    return True


def patch(cluster: Cluster, folder: Path, text: str, *argv: str) -> str:
    file = folder / "patch.yaml"
    file.write_text(text, encoding="utf-8")
    result = cluster.talosctl("patch", "mc", *argv, "--patch", f"@{file}")
    return result.stdout + result.stderr


def check_ports(cluster: Cluster, **expected: bool) -> None:
    ports = {"api": API, "trustd": TRUSTD}
    found = {name: is_open(cluster, ports[name]) for name in expected}
    assert found == expected


@pytest.fixture
def folder(cluster: Cluster, tmp_path: Path) -> Iterator[Path]:
    check_ports(cluster, api=True, trustd=True)
    yield tmp_path
    eventually("the API is open again", lambda: check_ports(cluster, api=True))
    patch(cluster, tmp_path, REMOVAL, "--mode", "no-reboot")
    eventually("all ports are open again", lambda: check_ports(cluster, api=True, trustd=True))


def test_rules_open_ports_of_a_closed_node(cluster: Cluster, folder: Path) -> None:
    text = patch(cluster, folder, BLOCK + RULE, "--mode", "no-reboot")
    assert "closes the API" not in text
    eventually("trustd's port is closed", lambda: check_ports(cluster, api=True, trustd=False))
    chains = {row["ID"]: row["POLICY"] for row in cluster.rows("get", "nftableschain")}
    assert chains == {"ingress": "drop", "prerouting": "accept"}


def test_a_trial_that_closes_the_api_ends_by_itself(cluster: Cluster, folder: Path) -> None:
    assert "closes the API" in patch(cluster, folder, BLOCK, "--mode", "no-reboot", "--dry-run")
    check_ports(cluster, api=True)
    with ThreadPoolExecutor(1) as thread:
        # The trial may end before talosctl does, on a busy machine.
        closed = thread.submit(eventually, "the API is closed", lambda: check_ports(cluster, api=False))
        text = patch(cluster, folder, BLOCK, "--mode", "try", "--timeout", "8s")
        closed.result()
    assert "closes the API" in text
    eventually("the trial has ended", lambda: check_ports(cluster, api=True, trustd=True))
