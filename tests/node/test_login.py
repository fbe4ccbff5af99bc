"""People of an issuer log in to a node through the real doors, with the roles of the config alone."""

import json
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.harness.cluster import Cluster, eventually
from tests.harness.issuer import CLIENT, Issuer, serve_issuer

from talos.config.talosconfig.places import open_talosconfig, save

HEADER = {"apiVersion": "v1alpha1", "kind": "OIDCLoginConfig"}
ROLES = ("os:admin", "os:operator", "os:reader", "os:etcd:backup")


@pytest.fixture
def issuer(cluster: Cluster, tmp_path: Path) -> Generator[Issuer]:
    """Known to the node, with a group for each role."""
    with serve_issuer(tmp_path, host=str(cluster.info.gateway)) as issuer:
        rules = [{"claims": {"groups": role.replace(":", "-")}, "roles": [role]} for role in ROLES]
        document: dict[str, object] = {**HEADER, "issuer": issuer.url, "ca": issuer.ca}
        document |= {"clientID": CLIENT, "nameClaim": "email", "certificateTTL": "5m", "rules": rules}
        patch(cluster, document)
        yield issuer
        patch(cluster, {**HEADER, "$patch": "delete"})


@pytest.fixture
def person(cluster: Cluster, tmp_path: Path) -> Cluster:
    """A client that has the cluster's CA and no certificate."""
    config, _ = open_talosconfig(str(cluster.talosconfig))
    path = tmp_path / "talosconfig"
    context = replace(config.current, endpoints=(cluster.addresses[0],), crt=b"", key=b"")
    save(config.with_context(config.context, context), path)
    return replace(cluster, talosconfig=path)


def patch(cluster: Cluster, document: dict[str, object]) -> None:
    cluster.talosctl("-n", cluster.addresses[0], "patch", "mc", "--patch", json.dumps(document))


def try_login(person: Cluster, tmp_path: Path, token: str) -> str:
    """The error; empty for none."""
    (tmp_path / "token").write_text(token)
    result = person.talosctl("login", "--token-file", str(tmp_path / "token"), check=False)
    return "" if result.returncode == 0 else result.stderr


def may(person: Cluster, *argv: str) -> bool:
    """Whether the role is enough for a call, which may be refused for other reasons."""
    result = person.talosctl("-n", person.addresses[0], *argv, check=False)
    assert "Unavailable" not in result.stderr, result.stderr
    return "PermissionDenied" not in result.stderr


def test_people_have_the_roles_of_the_config(
    cluster: Cluster, issuer: Issuer, person: Cluster, tmp_path: Path
) -> None:
    def is_open() -> None:
        assert try_login(person, tmp_path, issuer.token(groups=["os-reader"])) == ""

    eventually("a reader has logged in", is_open)
    assert may(person, "get", "members")
    assert not may(person, "get", "machineconfig")
    assert not may(person, "meta", "write", "0x55", "x")
    assert not may(person, "service", "trustd", "restart")
    assert try_login(person, tmp_path, issuer.token(groups=["os-operator"])) == ""
    assert may(person, "service", "timed", "restart")
    assert not may(person, "get", "machineconfig")
    assert try_login(person, tmp_path, issuer.token(groups=["os-admin"])) == ""
    assert may(person, "get", "machineconfig")
    admin = person.talosconfig.read_bytes()
    for groups in ("os-impersonator", "os:admin", None):
        token = issuer.token(groups=groups, roles=["os:admin"])
        assert "no rule of the config matches" in try_login(person, tmp_path, token)
    assert "Signature verification failed" in try_login(person, tmp_path, issuer.token()[:-8] + "AAAAAAAA")
    assert person.talosconfig.read_bytes() == admin
    records = [
        json.loads(line[line.index("{") :]) for line in lines_of(cluster, "audit") if "LoginService" in line
    ]
    assert [record["result"] for record in records][-1] == "UNAUTHENTICATED"
    assert ["os:reader"] in [record["roles"] for record in records]
    assert all(record["name"] in {"", "ann@example.org"} for record in records)


def lines_of(cluster: Cluster, log: str) -> list[str]:
    return cluster.talosctl("-n", cluster.addresses[0], "logs", log).stdout.splitlines()


def test_no_rule_gives_the_role_by_which_nodes_act_for_others(cluster: Cluster) -> None:
    document = {
        **HEADER,
        "issuer": "https://id.example",
        "clientID": CLIENT,
        "rules": [{"claims": {"groups": "ops"}, "roles": ["os:impersonator"]}],
    }
    result = cluster.talosctl(
        "-n", cluster.addresses[0], "patch", "mc", "--patch", json.dumps(document), check=False
    )
    assert result.returncode != 0
    assert "rules[0].roles" in result.stderr
    assert "os:impersonator" in result.stderr
