"""``talosctl support``: an archive of what nodes report."""

import importlib
import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.empty_pb2 import Empty
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.common.common_pb2 import Data
from talos.api.cosi import meta_pb2 as meta
from talos.api.cosi import resource_pb2 as resource
from talos.api.cosi import state_pb2 as state
from talos.api.inspect import inspect_pb2 as inspect
from talos.api.machine import machine_pb2 as machine
from talos.resource.kinds import META_KEY
from talos.talosctl.cli.exit import Exit
from talos.talosctl.commands.support import MAX_NAME
from talos.upgrade.state import STATE_TAG

MACHINE = "/machine.MachineService/"
TEXTS = ("mounts", "processes", "io", "summary", "service-logs/apid.state")


def definition(name: str, *, is_secret: bool = False) -> resource.Resource:
    spec = meta.ResourceDefinitionSpec(
        resource_type=name,
        default_namespace="network",
        sensitivity=meta.ResourceDefinitionSpec.SENSITIVE
        if is_secret
        else meta.ResourceDefinitionSpec.NON_SENSITIVE,
    )
    row = resource.Resource()
    row.metadata.id = name.lower()
    row.spec.proto_spec = spec.SerializeToString()
    return row


@pytest.fixture
def collected(node: FakeNode) -> FakeNode:
    def list_rows(request: state.ListRequest, _metadata: object) -> list[state.ListResponse]:
        if request.namespace == "meta":
            rows = [definition(name) for name in ("LinkStatuses", META_KEY.type)]
            rows.append(definition("ApiCertificates", is_secret=True))
        elif request.type == META_KEY.type:
            rows = [resource.Resource(spec=resource.Spec(yaml_spec=f"value: {one}\n")) for one in "ab"]
            rows[0].metadata.id, rows[1].metadata.id = "0x0b", f"0x{STATE_TAG:02x}"
        else:
            assert request.type == "LinkStatuses", "secrets stay on the node"
            rows = [resource.Resource(spec=resource.Spec(yaml_spec="mtu: 1500\n"))]
            rows[0].metadata.id = "eth0"
        return [state.ListResponse(resource=row) for row in rows]

    def read(request: machine.ReadRequest, _metadata: object) -> Any:
        if request.path == "/proc/pressure/io":
            return GRPCError(Status.NOT_FOUND, "no such file")
        if request.path == "/proc/cmdline":
            return [Data(bytes=b"quiet talos.config=https://me:planted@h/?t=planted\n")]
        return [Data(bytes=request.path.encode())]

    service = machine.ServiceInfo(id="apid", state="Running")
    node.on("/cosi.resource.State/List", state.ListRequest, list_rows, stream=True)
    node.on(MACHINE + "Read", machine.ReadRequest, read, stream=True)
    kernel_log = [Data(bytes=b"boot\n"), Data(bytes=b"up\n")]
    node.on(MACHINE + "Dmesg", machine.DmesgRequest, kernel_log, stream=True)
    node.on(
        MACHINE + "Logs",
        machine.LogsRequest,
        lambda request, _metadata: [Data(bytes=request.id.encode())],
        stream=True,
    )
    node.on(
        MACHINE + "ServiceList",
        Empty,
        machine.ServiceListResponse(messages=[machine.ServiceList(services=[service])]),
    )
    node.on(
        MACHINE + "LogsContainers",
        Empty,
        machine.LogsContainersResponse(messages=[machine.LogsContainer(ids=["apid", "machined"])]),
    )
    pod = "kube-system/coredns-1"
    containers = [
        machine.ContainerInfo(id=pod, pod_id=pod),
        machine.ContainerInfo(id=f"{pod}:coredns:abc", pod_id=pod),
        machine.ContainerInfo(id="default/web:web:def", pod_id="default/web"),
    ]
    node.on(
        MACHINE + "Containers",
        machine.ContainersRequest,
        machine.ContainersResponse(messages=[machine.Container(containers=containers)]),
    )
    info = machine.VersionInfo(tag="v1.15.0", go_version="python3.13", os="linux", arch="amd64")
    node.on(MACHINE + "Version", Empty, machine.VersionResponse(messages=[machine.Version(version=info)]))
    process = machine.ProcessInfo(pid=1, state="S", threads=3, cpu_time=1.5, command="init", label="none")
    running = machine.Process(processes=[process])
    node.on(MACHINE + "Processes", Empty, machine.ProcessesResponse(messages=[running]))
    stats = [
        machine.MountStat(filesystem="/dev/vda6", size=4 * 10**9, available=10**9, mounted_on="/var"),
        machine.MountStat(filesystem="proc", mounted_on="/proc"),
    ]
    node.on(MACHINE + "Mounts", Empty, machine.MountsResponse(messages=[machine.Mounts(stats=stats)]))
    disk = machine.DiskStat(name="vda", io_time_ms=1, io_time_weighted_ms=2, write_sectors=3, read_sectors=4)
    node.on(
        MACHINE + "DiskStats",
        Empty,
        machine.DiskStatsResponse(messages=[machine.DiskStats(devices=[disk])]),
    )
    node.on(MACHINE + "Memory", Empty, machine.MemoryResponse())
    node.on(
        "/inspect.InspectService/ControllerRuntimeDependencies",
        Empty,
        inspect.ControllerRuntimeDependenciesResponse(),
    )
    return node


@pytest.mark.usefixtures("collected")
def test_a_folder_for_each_node(talosctl: Client, tmp_path: Path) -> None:
    path = tmp_path / "s.zip"
    result = talosctl("support", "-O", str(path), "-w", "3")
    assert result.code == 0, result.err
    assert f"support bundle is written to {path}" in result.err
    assert "Kubernetes' objects are left out" in result.err
    assert path.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(path) as bundle:
        names = set(bundle.namelist())
        assert {name.partition("/")[0] for name in names} == {"10.0.0.2", "10.0.0.3"}
        assert bundle.read("10.0.0.2/dmesg.log") == b"boot\nup\n"
        log = "10.0.0.2/kubernetes-logs/kube-system/coredns-1_coredns_abc.log"
        assert bundle.read(log) == b"kube-system/coredns-1:coredns:abc"
        assert not [name for name in bundle.namelist() if "default" in name]
        assert bundle.read("10.0.0.3/service-logs/machined.log") == b"machined"
        assert b"Running" in bundle.read("10.0.0.2/service-logs/apid.state")
        assert b"mtu: 1500" in bundle.read("10.0.0.2/resources/linkstatuses.yaml")
        assert bundle.read("10.0.0.2/cmdline") == b"quiet talos.config=https://h/?t=***\n"
        meta_keys = yaml.safe_load_all(bundle.read(f"10.0.0.2/resources/{META_KEY.type.lower()}.yaml"))
        assert [one["spec"]["value"] for one in meta_keys] == ["***", "b"]
        assert bundle.read("10.0.0.2/pressure/cpu") == b"/proc/pressure/cpu"
        assert (
            bundle.read("10.0.0.2/errors.txt")
            == b"pressure/io: rpc error: code = NotFound desc = no such file\n"
        )
        assert not any("certificates" in name for name in names)
    result = talosctl("support", "-O", str(path))
    assert (result.code, "already exists" in result.err) == (1, True)


@pytest.mark.usefixtures("collected")
def test_texts_have_the_columns_that_upstreams_have(talosctl: Client, tmp_path: Path) -> None:
    path = tmp_path / "s.zip"
    assert talosctl("support", "-n", "10.0.0.2", "-O", str(path)).code == 0
    with zipfile.ZipFile(path) as bundle:
        text = {name: bundle.read(f"10.0.0.2/{name}").decode() for name in TEXTS}
    assert text["mounts"] == (
        "FILESYSTEM   SIZE(GB)   USED(GB)   AVAILABLE(GB)   PERCENT USED   MOUNTED ON\n"
        "/dev/vda6    4.00       3.00       1.00            75.00%         /var\n"
    )
    assert text["processes"] == (
        "PID   STATE   THREADS   CPU-TIME   VIRTMEM   RESMEM   COMMAND\n"
        "1     S       3         1.50       0 B       0 B      init\n"
    )
    assert text["io"] == (
        "NAME   IO_TIME   IO_TIME_WEIGHTED   DISK_WRITE_SECTORS   DISK_READ_SECTORS\n"
        "vda    1         2                  3                    4\n"
    )
    client, _, server = text["summary"].partition("Server:\n")
    assert client.startswith("Client:\n\tTag:")
    assert server == (
        "\tTag:         v1.15.0\n\tSHA:\n\tBuilt:\n\tGo version:  python3.13\n\tOS/Arch:     linux/amd64\n"
    )
    assert text["service-logs/apid.state"] == "ID       apid\nSTATE    Running\nHEALTH   Fail\n"


@pytest.mark.usefixtures("collected")
def test_encrypted_for_a_recipient(talosctl: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    age: Any = importlib.import_module("pyrage")
    identity = age.x25519.Identity.generate()
    monkeypatch.chdir(tmp_path)
    result = talosctl("support", "-n", "10.0.0.2", "--encryption-recipients", str(identity.to_public()))
    assert result.code == 0, result.err
    content = age.decrypt((tmp_path / "support.zip.age").read_bytes(), [identity])
    with zipfile.ZipFile(io.BytesIO(content)) as bundle:
        assert "10.0.0.2/dmesg.log" in bundle.namelist()
    result = talosctl("support", "-O", "other", "--encryption-recipients", "age1nonsense")
    assert (result.code, '"age1nonsense" is no recipient' in result.err) == (Exit.USAGE, True)
    assert not (tmp_path / "other").exists()


def test_a_place_that_can_not_be_written_is_named_before_nodes_are_called(talosctl: Client) -> None:
    result = talosctl("support", "-O", "/nowhere/s.zip")
    assert (result.code, result.err) == (1, "error: /nowhere: is no folder that can be written to\n")


def test_no_archive_when_no_node_answers(talosctl: Client, tmp_path: Path) -> None:
    path = tmp_path / "s.zip"
    result = talosctl("support", "-O", str(path))
    assert result.code == Exit.REFUSED
    assert "Unimplemented" in result.err
    assert not path.exists()


def test_what_a_node_gets_wrong_leaves_out_no_other_file(
    talosctl: Client, collected: FakeNode, tmp_path: Path
) -> None:
    names = ["x" * 70_000, "apid", *("a" * MAX_NAME + end for end in "12")]
    services = [machine.ServiceInfo(id=name) for name in ("apid", "apid", "b")]
    collected.on(
        MACHINE + "LogsContainers",
        Empty,
        machine.LogsContainersResponse(messages=[machine.LogsContainer(ids=names)]),
    )
    collected.on(
        MACHINE + "ServiceList",
        Empty,
        machine.ServiceListResponse(messages=[machine.ServiceList(services=services)]),
    )

    def list_rows(request: state.ListRequest, _metadata: object) -> list[state.ListResponse]:
        if request.namespace == "meta":
            return [state.ListResponse(resource=definition("LinkStatuses"))]
        row = resource.Resource(spec=resource.Spec(yaml_spec="[" * 200))
        return [state.ListResponse(resource=row)]

    collected.on("/cosi.resource.State/List", state.ListRequest, list_rows, stream=True)
    path = tmp_path / "s.zip"
    result = talosctl("support", "-n", "10.0.0.2", "-O", str(path))
    assert result.code == 0, result.err
    with zipfile.ZipFile(path) as bundle:
        found = bundle.namelist()
        assert len(set(found)) == len(found)
        assert {"10.0.0.2/service-logs/b.state", "10.0.0.2/dmesg.log"} < set(found)
        errors = bundle.read("10.0.0.2/errors.txt").decode()
    assert "service-logs/apid.state: the node has it twice\n" in errors
    assert "resources/linkstatuses.yaml: " in errors
    assert "nested too deeply" in errors
