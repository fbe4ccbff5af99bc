"""Control groups from an archive of /sys/fs/cgroup."""

import io
import json
import tarfile
from pathlib import Path

import pytest
from google.protobuf.empty_pb2 import Empty
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.common.common_pb2 import Data
from talos.api.machine import machine_pb2 as machine

FILES = {
    "cgroup.controllers": "cpu memory\n",
    "cgroup.procs": "2\n",
    "cpu.stat": "usage_usec 300\nuser_usec 200000000\nsystem_usec 100\nthrottled_usec 0\n",
    "memory.pressure": "some avg10=0.10 avg60=0.00 total=7\nfull avg10=0.20 avg60=0.00 total=0\n",
    "init/cpu.stat": "user_usec 50000000\nsystem_usec 1000\n",
    "init/cpu.weight": "79\n",
    "init/cpu.max": "max 100000\n",
    "init/cgroup.procs": "1\n5\n",
    "init/cgroup.threads": "1\n5\n6\n",
    "init/pids.current": "3\n",
    "init/pids.max": "max\n",
    "init/memory.current": "12582912\n",
    "init/memory.min": "100663296\n",
    "init/memory.max": "max\n",
    "init/io.stat": "259:0 rbytes=1024 wbytes=0 rios=3 wios=4 dbytes=0 dios=0\n8:0 \n",
    "kubepods/pod1/abc/cgroup.procs": "9\n",
    "system/apid/cgroup.procs": "\n",
}


def archive(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content.encode()))
    return buffer.getvalue()


@pytest.fixture
def grouped(node: FakeNode) -> FakeNode:
    content = archive(FILES)
    node.on(
        "/machine.MachineService/Copy",
        machine.CopyRequest,
        [Data(bytes=content[:100]), Data(bytes=content[100:])],
        stream=True,
    )
    processes = [
        machine.ProcessInfo(pid=1, executable="/usr/bin/python3.13"),
        machine.ProcessInfo(pid=5, command="zygote"),
    ]
    node.on(
        "/machine.MachineService/Processes",
        Empty,
        machine.ProcessesResponse(messages=[machine.Process(processes=processes)]),
    )
    row = machine.ContainerInfo(id="abc", pod_id="default/web", name="nginx", uid="1", namespace="k8s.io")
    node.on(
        "/machine.MachineService/Containers",
        machine.ContainersRequest,
        machine.ContainersResponse(messages=[machine.Container(containers=[row])]),
    )
    return node


def cells(talosctl: Client, *argv: str) -> dict[str, list[str]]:
    result = talosctl("cgroups", "-n", "10.0.0.2", *argv)
    assert result.code == 0, result.err
    rows = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in result.out.splitlines()]
    return {row[0]: row[1:] for row in rows}


@pytest.mark.usefixtures("grouped")
def test_presets(talosctl: Client) -> None:
    cpu = cells(talosctl, "--preset", "cpu")
    assert cpu["."] == ["unset", "unset", "unset", "3m20s", "-", "100µs", "-", "0s"]
    assert cpu["├──init"] == ["79", "unset", "max 100000", "50s", "25.00%", "1ms", "1000.00%", "0s"]
    memory = cells(talosctl, "--preset", "memory")
    assert memory["├──init"] == ["12 MiB", "unset", "unset", "-", "unset", "96 MiB", "12.50%", "max"]
    assert cells(talosctl, "--preset", "io")["├──init"][:2] == ["259:0: 1 KiB/0 B", "259:0: 3/4"]
    assert cells(talosctl, "--preset", "process")["├──init"] == [
        "3",
        "unset",
        "max",
        "2",
        "3",
        "1(python3.13) 5(zygote)",
    ]
    assert cells(talosctl, "--preset", "psi")["."] == ["unset", "0.10", "0.20", "unset", "unset"]


def test_containers_by_name_where_kubernetes_runs(talosctl: Client, grouped: FakeNode) -> None:
    tree = talosctl("cgroups", "-n", "10.0.0.2", "--preset", "cpu").out
    assert "├──kubepods " in tree
    assert "│   └──default/web " in tree
    assert "│       └──default/web/nginx " in tree
    tree = talosctl("cgroups", "-n", "10.0.0.2", "--preset", "cpu", "--skip-cri-resolve").out
    assert "│   └──pod1 " in tree
    grouped.on(
        "/machine.MachineService/Containers",
        machine.ContainersRequest,
        GRPCError(Status.UNAVAILABLE, "containerd of Kubernetes is down"),
    )
    result = talosctl("cgroups", "-n", "10.0.0.2", "--preset", "cpu")
    assert result.code == 0
    assert "│       └──abc " in result.out


@pytest.mark.usefixtures("grouped")
def test_programs_get_the_path_of_each_group(talosctl: Client) -> None:
    result = talosctl("cgroups", "-n", "10.0.0.2", "--preset", "cpu", "-o", "json")
    rows = {row["name"]: row for row in json.loads(result.out)}
    assert rows.keys() >= {".", "init", "kubepods/pod1/abc"}
    assert rows["init"]["cpuweight"] == "79"


@pytest.mark.usefixtures("grouped")
def test_schema_file(talosctl: Client, tmp_path: Path) -> None:
    schema = tmp_path / "schema.yaml"
    schema.write_text(
        "columns:\n"
        "  - {name: Now, template: '{{ .MemoryCurrent.HumanizeIBytes | printf \"%8s\" }}'}\n"
        "  - {name: Part, template: '{{ .MemoryCurrent.DivideBy .MemoryMin | printf \"%6s%%\" }}'}\n"
        "  - {name: User, template: 'u={{ .CPUStat.user_usec.UsecToDuration }}'}\n"
        "  - {name: Weight, template: '{{ .CPUWeight }}'}\n"
    )
    rows = cells(talosctl, "--schema-file", str(schema))
    assert rows["NAME"] == ["Now", "Part", "User", "Weight"]
    assert rows["├──init"] == ["12 MiB", "12.50%", "u=50s", "79"]
    schema.write_text("columns:\n  - {name: X, template: '{{ range .IOStat }}'}\n")
    result = talosctl("cgroups", "-n", "10.0.0.2", "--schema-file", str(schema))
    assert result.code == 1
    assert "X: {{ range .IOStat }} can't be read" in result.err


def test_mistakes(talosctl: Client, node: FakeNode) -> None:
    assert "--preset, --schema-file: one of them is needed" in talosctl("cgroups", "-n", "10.0.0.2").err
    assert 'there is no preset "x"' in talosctl("cgroups", "-n", "10.0.0.2", "--preset", "x").err
    old = Data(bytes=archive({"cpu/cpu.shares": "1024\n"}))
    node.on("/machine.MachineService/Copy", machine.CopyRequest, [old], stream=True)
    result = talosctl("cgroups", "-n", "10.0.0.2", "--preset", "cpu")
    assert (result.code, result.out) == (1, "")
    assert "no control groups of version 2" in result.err


@pytest.mark.parametrize("content", [b"no archive", archive(FILES)[:80]])
def test_an_archive_that_is_none(talosctl: Client, grouped: FakeNode, content: bytes) -> None:
    request, chunks = machine.CopyRequest, [Data(bytes=content)]
    grouped.on("/machine.MachineService/Copy", request, chunks, stream=True)
    result = talosctl("cgroups", "-n", "10.0.0.2", "--preset", "cpu")
    assert (result.code, result.out) == (1, "")
    assert "its control groups can't be read" in result.err


def test_what_no_kernel_has_is_left_out(talosctl: Client, grouped: FakeNode) -> None:
    content = archive({**FILES, "/".join("a" * 5000): "x", "init/cpu.stat": "user_usec ²\n"})
    request, chunks = machine.CopyRequest, [Data(bytes=content)]
    grouped.on("/machine.MachineService/Copy", request, chunks, stream=True)
    assert talosctl("cgroups", "-n", "10.0.0.2", "--preset", "cpu").code == 0
