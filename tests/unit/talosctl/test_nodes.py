"""Commands against a node with real TLS."""

import ipaddress
import json
import os
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.empty_pb2 import Empty
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from tests.unit.talosctl.fake import Client, FakeNode, Pki

from talos.api.common import common_pb2 as common
from talos.api.common.common_pb2 import Data
from talos.api.cosi.resource_pb2 import Metadata, Resource, Spec
from talos.api.cosi.state_pb2 import ListRequest, ListResponse
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.cluster_pb2 import MemberSpec
from talos.api.definitions.k8s_pb2 import NodeStatusSpec
from talos.api.machine import machine_pb2 as machine
from talos.talosctl.cli.exit import Exit

VERSION = "/machine.MachineService/Version"
MEMORY = "/machine.MachineService/Memory"


def memory_reply(total: int) -> machine.MemoryResponse:
    info = machine.MemInfo(
        memtotal=total * 1024, memfree=1024, cached=2048, buffers=1024, memavailable=4096, shmem=512
    )
    return machine.MemoryResponse(messages=[machine.Memory(meminfo=info)])


def test_two_nodes_give_two_rows_in_order(talosctl: Client, node: FakeNode) -> None:
    node.on(
        MEMORY, Empty, lambda _request, metadata: memory_reply(100 if metadata["node"] == "10.0.0.2" else 200)
    )
    result = talosctl("memory")
    assert result.code == 0
    assert result.out == (
        "NODE       TOTAL   USED   FREE   SHARED   BUFFERS   CACHE   AVAILABLE\n"
        "10.0.0.2   100     96     1      0        1         2       4\n"
        "10.0.0.3   200     196    1      0        1         2       4\n"
    )


def test_node_that_fails_is_named_and_the_other_is_shown(talosctl: Client, node: FakeNode) -> None:
    def answer(_request: Any, metadata: Mapping[str, str]):
        if metadata["node"] == "10.0.0.3":
            return GRPCError(Status.UNAVAILABLE, "dial tcp 10.0.0.3:50000: connection refused")
        return memory_reply(100)

    node.on(MEMORY, Empty, answer)
    result = talosctl("memory")
    assert result.code == Exit.UNREACHABLE
    assert "10.0.0.2   100" in result.out
    assert "10.0.0.3" not in result.out
    reason = "rpc error: code = Unavailable desc = dial tcp 10.0.0.3:50000: connection refused"
    assert result.err == f"error: 10.0.0.3: {reason}\n"


def test_version_shows_client_and_nodes(talosctl: Client, node: FakeNode) -> None:
    info = machine.VersionInfo(tag="v1", sha="abc", built="", go_version="CPython", os="linux", arch="amd64")
    version = machine.Version(version=info, features=machine.FeaturesInfo(rbac=True))
    node.on(VERSION, Empty, machine.VersionResponse(messages=[version]))
    result = talosctl("version", "-n", "10.0.0.2")
    assert result.code == 0
    assert result.out.startswith("Client:\n\tTag:         v")
    assert "Server:\n\tNODE:        10.0.0.2\n\tTag:         v1\n\tSHA:         abc\n" in result.out
    assert "\tEnabled:     RBAC\n" in result.out
    result = talosctl("version", "--json", "-n", "10.0.0.2")
    assert json.loads(result.out)["version"] == {
        "tag": "v1",
        "sha": "abc",
        "goVersion": "CPython",
        "os": "linux",
        "arch": "amd64",
    }


def test_flags_before_the_command(talosctl: Client, node: FakeNode) -> None:
    node.on(MEMORY, Empty, memory_reply(1))
    result = talosctl("-n", "a,b", "-e", f"127.0.0.1:{node.port}", "memory")
    assert result.code == 0
    assert [row[1] for row in sorted(node.seen, key=lambda row: row[1])] == ["a", "b"]


def test_logs_carry_the_node_and_whole_lines(talosctl: Client, node: FakeNode) -> None:
    chunks = [Data(bytes=b"one\ntw"), Data(bytes=b"o\nthree")]
    node.on("/machine.MachineService/Logs", machine.LogsRequest, chunks, stream=True)
    result = talosctl("logs", "apid", "-n", "10.0.0.2", "--tail", "5", "-f")
    assert result.code == 0
    assert result.out == "10.0.0.2: one\n10.0.0.2: two\n10.0.0.2: three\n"
    request = node.seen[0][2]
    assert (request.namespace, request.id, request.tail_lines, request.follow) == ("system", "apid", 5, True)


@pytest.mark.parametrize("command", [("logs", "apid"), ("dmesg",), ("memory",)], ids=" ".join)
def test_a_reader_that_has_seen_enough_ends_a_command_in_silence(
    talosctl: Client, node: FakeNode, command: tuple[str, ...]
) -> None:
    many = [Data(bytes=b"one line of many\n" * 1000)] * 100
    node.on("/machine.MachineService/Logs", machine.LogsRequest, many, stream=True)
    node.on("/machine.MachineService/Dmesg", machine.DmesgRequest, many, stream=True)
    node.on(MEMORY, Empty, memory_reply(100))
    reader, writer = os.pipe()
    os.close(reader)
    error_reader, error_writer = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, writer, 1), (os.POSIX_SPAWN_DUP2, error_writer, 2)]
    argv = [sys.executable, "-m", "talos.talosctl.main", *command, "--talosconfig", str(talosctl.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = os.posix_spawn(sys.executable, argv, environment, file_actions=actions)
    os.close(writer)
    os.close(error_writer)
    with os.fdopen(error_reader) as file:
        assert file.read() == ""
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == Exit.BROKEN_PIPE


def test_stream_that_ends_with_an_error(talosctl: Client, node: FakeNode) -> None:
    async def answer(_request: Any, _metadata: Mapping[str, str]):
        yield Data(bytes=b"one\n")
        raise GRPCError(Status.NOT_FOUND, "no such log")

    node.on("/machine.MachineService/Logs", machine.LogsRequest, answer, stream=True)
    result = talosctl("logs", "x", "-n", "10.0.0.2")
    assert (result.code, result.out) == (1, "10.0.0.2: one\n")
    assert result.err == "error: 10.0.0.2: rpc error: code = NotFound desc = no such log\n"


def test_read_is_raw_and_for_one_node(talosctl: Client, node: FakeNode) -> None:
    node.on(
        "/machine.MachineService/Read",
        machine.ReadRequest,
        [Data(bytes=b"a"), Data(bytes=b"b\n")],
        stream=True,
    )
    assert talosctl("read", "/etc/os-release", "-n", "10.0.0.2").out == "ab\n"
    result = talosctl("cat", "/etc/os-release")
    assert result.code == Exit.USAGE
    assert "read is not supported with multiple nodes: 10.0.0.2, 10.0.0.3" in result.err


def test_permission_denied_names_the_roles(client: Client, node: FakeNode, pki: Pki) -> None:
    client.configure([f"127.0.0.1:{node.port}"], ["10.0.0.2"], pair=pki.reader)
    node.on(
        "/machine.MachineService/Reboot",
        machine.RebootRequest,
        GRPCError(Status.PERMISSION_DENIED, "not authorized"),
    )
    result = client("reboot", "--wait=false")
    assert result.code == Exit.REFUSED
    reason = "rpc error: code = PermissionDenied desc = not authorized: your certificate has os:reader"
    assert result.err == f"error: 10.0.0.2: {reason}\n"


def test_unknown_method_is_unimplemented(talosctl: Client) -> None:
    result = talosctl("rollback", "-n", "10.0.0.2")
    assert result.code == Exit.REFUSED
    assert "code = Unimplemented" in result.err


def test_no_nodes_is_an_error(client: Client, node: FakeNode) -> None:
    client.configure([f"127.0.0.1:{node.port}"])
    result = client("memory")
    assert result.code == Exit.USAGE
    assert "nodes are not set" in result.err
    assert "--nodes" in result.err


def test_insecure_talks_to_the_node_itself(client: Client, maintenance_node: FakeNode) -> None:
    maintenance_node.on(MEMORY, Empty, memory_reply(7))
    result = client("memory", "--insecure", "-n", f"127.0.0.1:{maintenance_node.port}")
    assert result.code == 0
    assert maintenance_node.seen[0][1] == ""


def test_fingerprint_pins_the_certificate(client: Client, maintenance_node: FakeNode) -> None:
    from talos.pki.certificate import parse_certificate, spki_fingerprint

    maintenance_node.on(MEMORY, Empty, memory_reply(7))
    right = spki_fingerprint(parse_certificate(maintenance_node.server_pair.crt))
    where = f"127.0.0.1:{maintenance_node.port}"
    assert client("memory", "-i", "-n", where, "--cert-fingerprint", right).code == 0
    wrong = client("memory", "-i", "-n", where, "--cert-fingerprint", "AAAA")
    assert wrong.code == Exit.UNREACHABLE
    assert right in wrong.err
    assert "not AAAA" in wrong.err


def test_message_above_the_limit(talosctl: Client, node: FakeNode) -> None:
    reply = machine.VersionResponse(
        messages=[machine.Version(version=machine.VersionInfo(tag="x" * (33 * 2**20)))]
    )
    node.on(VERSION, Empty, reply)
    result = talosctl("version", "-n", "10.0.0.2")
    assert result.code == 1
    assert "larger than max (34603023 vs. 33554432)" in result.err


def test_packets_go_to_a_file(talosctl: Client, node: FakeNode, tmp_path: Path) -> None:
    head, record = (
        struct.pack("<I2HiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65536, 147),
        struct.pack("<4I", 60, 7, 1, 1),
    )
    packets = [Data(bytes=head), Data(bytes=record + b"x")]
    node.on("/machine.MachineService/PacketCapture", machine.PacketCaptureRequest, packets, stream=True)
    path = tmp_path / "out.pcap"
    result = talosctl("pcap", "-n", "10.0.0.2", "-i", "eth1", "-o", str(path), "--duration", "1h")
    assert result.code == 0, result.err
    assert path.read_bytes() == head + record + b"x"
    assert node.seen[0][2].interface == "eth1"
    printed = talosctl("pcap", "-n", "10.0.0.2")
    assert (printed.out, printed.err) == ("00:01:00.000007 link type 147, length 1\n", "")


def make_member(hostname: str, address: str, role: enums.MachineType) -> ListResponse:
    ip = common.NetIP(ip=ipaddress.ip_address(address).packed)
    spec = MemberSpec(hostname=hostname, addresses=[ip], machine_type=role)
    resource = Resource(metadata=Metadata(id=hostname), spec=Spec(proto_spec=spec.SerializeToString()))
    return ListResponse(resource=resource)


MEMBERS = [
    make_member("worker-2", "10.0.0.5", enums.TYPE_WORKER),
    make_member("worker-1", "10.0.0.4", enums.TYPE_WORKER),
    make_member("cp-1", "10.0.0.2", enums.TYPE_CONTROL_PLANE),
]


@pytest.fixture
def members(node: FakeNode) -> FakeNode:
    """A cluster of three nodes; the first worker has a label."""

    def list_(request: Any, metadata: Mapping[str, str]) -> list[ListResponse]:
        if request.type == "Members.cluster.talos.dev":
            return MEMBERS
        labels = {"zone": "a"} if metadata["node"] == "10.0.0.4" else {}
        spec = NodeStatusSpec(labels=labels).SerializeToString()
        return [ListResponse(resource=Resource(spec=Spec(proto_spec=spec)))]

    node.on("/cosi.resource.State/List", ListRequest, list_, stream=True)
    node.on(MEMORY, Empty, memory_reply(100))
    return node


@pytest.mark.parametrize(
    ("nodes", "addresses"),
    [
        ("@all", ["10.0.0.2", "10.0.0.4", "10.0.0.5"]),
        ("@controlplane", ["10.0.0.2"]),
        ("@workers,10.0.0.9,worker-1", ["10.0.0.4", "10.0.0.5", "10.0.0.9"]),
        ("@label=zone", ["10.0.0.4"]),
        ("@label=zone=a", ["10.0.0.4"]),
        ("CP-1,elsewhere.example.org", ["10.0.0.2", "elsewhere.example.org"]),
    ],
)
def test_groups_and_names_of_nodes(
    talosctl: Client, members: FakeNode, nodes: str, addresses: list[str]
) -> None:
    result = talosctl("memory", "-n", nodes, "-o", "json")
    assert result.code == 0, result.err
    assert [row["node"] for row in json.loads(result.out)] == addresses


@pytest.mark.parametrize(
    ("nodes", "code", "text"),
    [
        ("@label=zone=b", Exit.FAILED, "@label=zone=b: has no node"),
        (
            "@masters",
            Exit.USAGE,
            "@masters: is no group of nodes (use @all, @controlplane, @workers, @label=",
        ),
        ("@label=", Exit.USAGE, "@label=: is no group of nodes"),
        ("10.0.0.2,@", Exit.USAGE, "@: is no group of nodes"),
    ],
)
def test_groups_without_nodes(talosctl: Client, members: FakeNode, nodes: str, code: Exit, text: str) -> None:
    result = talosctl("memory", "-n", nodes)
    assert (result.code, text in result.err) == (code, True), result.err


def test_a_group_needs_an_endpoint_that_answers(talosctl: Client, node: FakeNode) -> None:
    node.on(
        "/cosi.resource.State/List",
        ListRequest,
        GRPCError(Status.PERMISSION_DENIED, "not authorized"),
        stream=True,
    )
    result = talosctl("memory", "-n", "@all")
    assert result.code == Exit.REFUSED
    assert "not authorized" in result.err


def test_rows_as_documents(talosctl: Client, node: FakeNode) -> None:
    node.on(MEMORY, Empty, memory_reply(100))
    result = talosctl("memory", "-n", "10.0.0.2", "-o", "yaml")
    assert yaml.safe_load(result.out) == [
        {
            "node": "10.0.0.2",
            "total": "100",
            "used": "96",
            "free": "1",
            "shared": "0",
            "buffers": "1",
            "cache": "2",
            "available": "4",
        }
    ]
