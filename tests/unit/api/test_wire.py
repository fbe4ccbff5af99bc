"""Our API is upstream's: every name, number, type and option."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc
from tests.unit.api.facts import (
    FOREIGN,
    PYTHON,
    TABLES,
    Fact,
    facts_of_file,
    facts_of_table,
    load_descriptors,
    load_tables,
)

from talos.api.metadata import UPGRADE
from talos.api.methods import DEFAULT_REPLY, DEFAULT_REQUEST, max_reply, max_request, methods
from talos.api.tables import read_table
from talos.rpc.limits import REPLY_MEMORY

OURS = [file for file in load_descriptors() if not file.package.startswith(FOREIGN)]

EXTERNAL = frozenset(
    {
        "events.EventSinkService",
        "sidero.discovery.server.Cluster",
        "sidero.kms.KMSService",
        "sidero.link.ProvisionService",
        "sidero.link.WireGuardOverGRPCService",
        "signerapi.SignerService",
        # trustd's own port, where a token counts and not a role.
        "securityapi.SecurityService",
    }
)
"""Services that apid doesn't route."""


@pytest.fixture(scope="module")
def upstream() -> set[Fact]:
    return {fact for table in load_tables() for fact in facts_of_table(table)}


@pytest.fixture(scope="module")
def ours() -> set[Fact]:
    return {fact for file in OURS for fact in facts_of_file(file)}


@pytest.mark.parametrize("kind", ["service", "method", "message", "field", "enum", "value", "extension"])
def test_our_descriptors_are_those_of_the_tables(upstream: set[Fact], ours: set[Fact], kind: str) -> None:
    theirs = {fact for fact in upstream if fact[0] == kind}
    assert theirs, "the tables have none"
    mine = {fact for fact in ours if fact[0] == kind}
    assert sorted(theirs - mine, key=str) == [], "missing"
    assert sorted(mine - theirs, key=str) == [], "not upstream's"


def test_generated_modules_are_up_to_date(tmp_path: Path) -> None:
    target = tmp_path / "descriptors"
    paths = [str(path) for path in sorted(PYTHON.rglob("*.proto"))]
    include = str(Path(str(protoc.__file__)).parent / "_proto")
    run_protoc = cast("Callable[[list[str]], int]", protoc.main)  # pyright: ignore[reportUnknownMemberType] - untyped
    assert run_protoc(["", f"-I{PYTHON}", f"-I{include}", f"--descriptor_set_out={target}", *paths]) == 0
    fresh = FileDescriptorSet.FromString(target.read_bytes())
    assert len(fresh.file) == len(paths)
    stale: list[str] = []
    for proto in fresh.file:
        module = importlib.import_module(f"{proto.name.removesuffix('.proto').replace('/', '.')}_pb2")
        generated = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(generated)
        if _normal(generated) != _normal(proto):
            stale.append(proto.name)
    assert stale == [], "generate them again"


def _normal(proto: FileDescriptorProto) -> FileDescriptorProto:
    """Without what only one of the two ways to a descriptor fills in."""
    copy = FileDescriptorProto.FromString(proto.SerializeToString())
    copy.ClearField("source_code_info")
    for message in copy.message_type:
        _drop_json_names(message)
    for field in copy.extension:
        field.ClearField("json_name")
    return copy


def _drop_json_names(message: DescriptorProto) -> None:
    for field in message.field:
        field.ClearField("json_name")
    for nested in message.nested_type:
        _drop_json_names(nested)


def test_every_method_of_the_node_has_a_role_row() -> None:
    rows = {row["method"]: row for row in read_table("roles.tsv")}
    arities = {
        (False, False): "unary",
        (False, True): "server",
        (True, False): "client",
        (True, True): "bidi",
    }
    methods = {
        f"/{service.full_name}/{method.name}": arities[method.client_streaming, method.server_streaming]
        for file in OURS
        for service in file.services_by_name.values()
        if service.full_name not in EXTERNAL
        for method in service.methods
    }
    assert {name: row["stream"] for name, row in rows.items()} == methods


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("roles.tsv", "."),
        ("resources.tsv", "."),
        ("yaml_keys.tsv", "definitions"),
        ("enum_text.tsv", "definitions"),
    ],
)
def test_shipped_tables_are_upstreams(name: str, folder: str) -> None:
    shipped = (PYTHON / "talos" / "api" / name).read_text(encoding="utf-8")
    assert shipped == (TABLES / folder / name).read_text(encoding="utf-8")


def test_own_roles_are_beside_upstreams() -> None:
    rows = list(read_table("own_roles.tsv"))
    upstreams = {role for row in read_table("roles.tsv") for role in row["roles_any_of"].split(",")}
    assert {row["role"] for row in rows} == {UPGRADE}
    assert UPGRADE not in upstreams
    allowed = {path for path, method in methods().items() if UPGRADE in method.roles}
    assert allowed == {row["method"] for row in rows}
    # It replaces no release by an older one, reads no secrets, and changes no config.
    for name in ("Upgrade", "Rollback", "Read", "ApplyConfiguration", "Reset", "Kubeconfig", "MetaWrite"):
        assert f"/machine.MachineService/{name}" not in allowed


def test_larger_requests_are_those_of_known_methods() -> None:
    rows = {row["method"]: int(row["max_request"]) for row in read_table("requests.tsv")}
    assert rows.keys() <= methods().keys()
    assert all(size > DEFAULT_REQUEST for size in rows.values())
    assert {path: max_request(path) for path in rows} == rows
    assert max_request("/machine.MachineService/Version") == max_request("/unknown") == DEFAULT_REQUEST


def test_bounds_of_replies() -> None:
    rows = {row["method"]: int(row["max_reply"]) for row in read_table("replies.tsv")}
    assert rows.keys() <= methods().keys()
    # A client alone gets half of what all may hold.
    assert {path: max_reply(path) for path in rows} == rows
    assert max(rows.values()) <= REPLY_MEMORY // 2
    assert max_reply("/machine.MachineService/Version") == max_reply("/unknown") == DEFAULT_REPLY
