"""``talosctl metrics``: a node's numbers, and what is left when it does not answer for some of them."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.cosi.resource_pb2 import Metadata, Resource, Spec
from talos.api.cosi.state_pb2 import ListRequest, ListResponse
from talos.api.definitions.block_pb2 import (
    FSScrubStatusSpec,
    MountRequestSpec,
    MountStatusSpec,
    VolumeStatusSpec,
)
from talos.api.definitions.enums_pb2 import BlockVolumePhase, RuntimeMachineStage
from talos.api.definitions.runtime_pb2 import (
    DiagnosticSpec,
    MachineStatusSpec,
    MachineStatusStatus,
    MetaLoadedSpec,
    UnmetCondition,
)
from talos.api.definitions.time_pb2 import AdjtimeStatusSpec, StatusSpec
from talos.api.machine import machine_pb2 as machine
from talos.api.machine.storage_pb2 import StorageServiceStatfsRequest, StorageServiceStatfsResponse
from talos.api.metrics import metrics_pb2 as metrics
from talos.talosctl.cli.flag import Flags
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.commands.metrics import start_server
from talos.talosctl.metrics.families import Sample, format_samples
from talos.talosctl.output.http import MAX_REQUEST

SERVICE = "/machine.MachineService/"
METRICS = "/talos.metrics.MetricsService/"
NODE = "10.0.0.2"
DRIVE = '{node="10.0.0.2",chip="nvme",device="nvme0",sensor="temp1",label="A"}'
TEXTS = {"DNSUpstreams.net.talos.dev": "healthy: false\naddr: 10.0.0.1:53\n"}
"""Of kinds without a message."""


def make_specs() -> Mapping[str, Message]:
    clock = AdjtimeStatusSpec()
    clock.offset.FromMicroseconds(-250)
    unmet = MachineStatusStatus(unmet_conditions=[UnmetCondition(name="time")])
    stage = RuntimeMachineStage.MACHINE_STAGE_RUNNING
    scrub = FSScrubStatusSpec(mountpoint="/var", status="2 findings")
    scrub.time.FromSeconds(900)
    return {
        "MachineStatuses.runtime.talos.dev": MachineStatusSpec(stage=stage, status=unmet),
        "Diagnostics.runtime.talos.dev": DiagnosticSpec(message="no"),
        "TimeStatuses.v1alpha1.talos.dev": StatusSpec(synced=True),
        "AdjtimeStatuses.v1alpha1.talos.dev": clock,
        "DNSUpstreams.net.talos.dev": Struct(),
        "MetaLoads.runtime.talos.dev": MetaLoadedSpec(done=True),
        "MountStatuses.block.talos.dev": MountStatusSpec(
            spec=MountRequestSpec(volume_id="EPHEMERAL"), source="/dev/vda6", target="/var"
        ),
        "VolumeStatuses.block.talos.dev": VolumeStatusSpec(phase=BlockVolumePhase.VOLUME_PHASE_FAILED),
        "FSScrubStatuses.block.talos.dev": scrub,
    }


def make_processes() -> list[machine.ProcessInfo]:
    shim = machine.ProcessInfo(
        pid=66, ppid=1, command="containerd-shim", args="shim -namespace system -id etcd", cpu_time=0.5
    )
    pods = machine.ProcessInfo(pid=70, ppid=1, command="containerd-shim", args="shim -namespace k8s.io -id a")
    return [
        machine.ProcessInfo(pid=1, command="init", cpu_time=2.25, resident_memory=4096, threads=3),
        machine.ProcessInfo(pid=7, ppid=1, command="containerd", args="containerd --config /system/a.toml"),
        machine.ProcessInfo(pid=8, ppid=1, command="containerd", args="containerd --config /etc/cri/a.toml"),
        machine.ProcessInfo(pid=9, ppid=1, command="apid", cpu_time=0.28),
        shim,
        pods,
        machine.ProcessInfo(pid=91, ppid=66, command="etcd", cpu_time=4),
        machine.ProcessInfo(pid=92, ppid=70, command="apid", cpu_time=1000),
    ]


def make_counts() -> metrics.ReadResponse:
    memory = metrics.Method(
        method=SERVICE + "Memory",
        results=[
            metrics.Result(code=0, count=2),
            metrics.Result(code=7, count=1),
            metrics.Result(code=99, count=1),
        ],
        buckets=[metrics.Bucket(seconds=0.025, count=3), metrics.Bucket(seconds=float("inf"), count=4)],
        seconds=0.5,
    )
    events = metrics.Method(method=SERVICE + "Events", results=[metrics.Result(code=1, count=1)])
    return metrics.ReadResponse(
        controllers=[metrics.Controller(name="network.A", runs=5, failures=1, seconds=0.25)],
        methods=[memory, events],
        watches=[metrics.Watches(type="Members.cluster.talos.dev", count=3)],
        disks=[
            metrics.Disk(name="sda", state="offline", errors=4),
            metrics.Disk(name="nvme0n1", state="live"),
        ],
        sensors=[
            metrics.Sensor(
                chip="nvme", device="nvme0", name="temp1", label="A", kind="temp", value=41.5, critical=84.0
            ),
            metrics.Sensor(chip="board", name="fan1", label="CPU", kind="fan", value=1200),
            metrics.Sensor(chip="board", name="humidity1", kind="humidity", value=1),
        ],
    )


@pytest.fixture
def full_node(node: FakeNode) -> FakeNode:
    specs = make_specs()

    def list_(request: Any, _metadata: Mapping[str, str]) -> list[ListResponse]:
        if request.type not in specs:
            return []
        spec = Spec(proto_spec=specs[request.type].SerializeToString(), yaml_spec=TEXTS.get(request.type, ""))
        return [ListResponse(resource=Resource(metadata=Metadata(id="a"), spec=spec))]

    version = machine.VersionInfo(tag='v1.15.0 "odd"')
    services = [
        machine.ServiceInfo(id="apid", state="Running", health=machine.ServiceHealth(healthy=True)),
        machine.ServiceInfo(id="etcd", state="Running", health=machine.ServiceHealth(unknown=True)),
    ]
    stat = machine.SystemStat(boot_time=1000, cpu_total=machine.CPUStat(user=1.5), context_switches=7)
    etcd = machine.EtcdMemberStatus(member_id=5, leader=5, db_size=4096)
    replies: Mapping[str, Message] = {
        "Version": machine.VersionResponse(messages=[machine.Version(version=version)]),
        "ServiceList": machine.ServiceListResponse(messages=[machine.ServiceList(services=services)]),
        "SystemStat": machine.SystemStatResponse(messages=[stat]),
        "LoadAvg": machine.LoadAvgResponse(messages=[machine.LoadAvg(load1=0.25)]),
        "Memory": machine.MemoryResponse(
            messages=[machine.Memory(meminfo=machine.MemInfo(memtotal=1024, memavailable=512))]
        ),
        "DiskStats": machine.DiskStatsResponse(
            messages=[machine.DiskStats(devices=[machine.DiskStat(name="vda", read_sectors=2)])]
        ),
        "NetworkDeviceStats": machine.NetworkDeviceStatsResponse(
            messages=[machine.NetworkDeviceStats(devices=[machine.NetDev(name="eth0", rx_bytes=9)])]
        ),
        "Processes": machine.ProcessesResponse(messages=[machine.Process(processes=make_processes())]),
        "EtcdStatus": machine.EtcdStatusResponse(messages=[machine.EtcdStatus(member_status=etcd)]),
    }
    node.on("/cosi.resource.State/List", ListRequest, list_, stream=True)
    for method, reply in replies.items():
        node.on(SERVICE + method, Empty, reply)
    files = metrics.CountFilesResponse(files={1: 104, 66: 25, 70: 20})
    node.on(METRICS + "CountFiles", metrics.CountFilesRequest, files)
    node.on(METRICS + "Read", Empty, make_counts())
    statfs = StorageServiceStatfsResponse(size=6 << 30, available=5 << 30)
    node.on("/machine.StorageService/Statfs", StorageServiceStatfsRequest, statfs)
    return node


def test_all_families_of_a_node(talosctl: Client, full_node: FakeNode) -> None:
    result = talosctl("metrics", "-n", NODE)
    assert result.code == 0, result.err
    for line in (
        'talos_up{node="10.0.0.2"} 1',
        'talos_node_info{node="10.0.0.2",version="v1.15.0 \\"odd\\"",stage="running"} 1',
        'talos_node_ready{node="10.0.0.2"} 0',
        'talos_node_unmet_condition{node="10.0.0.2",condition="time"} 1',
        'talos_boot_time_seconds{node="10.0.0.2"} 1000',
        'talos_load{node="10.0.0.2",minutes="1"} 0.25',
        'talos_cpu_seconds_total{node="10.0.0.2",mode="user"} 1.5',
        'talos_memory_bytes{node="10.0.0.2",kind="available"} 524288',
        'talos_disk_read_bytes_total{node="10.0.0.2",device="vda"} 1024',
        'talos_network_receive_bytes_total{node="10.0.0.2",device="eth0"} 9',
        'talos_volume_available_bytes{node="10.0.0.2",volume="EPHEMERAL"} 5368709120',
        'talos_volume_failed{node="10.0.0.2",volume="a"} 1',
        'talos_volume_scrub_success{node="10.0.0.2",volume="a"} 0',
        'talos_volume_scrub_timestamp_seconds{node="10.0.0.2",volume="a"} 900',
        'talos_process_cpu_seconds_total{node="10.0.0.2",process="machined"} 2.25',
        'talos_process_cpu_seconds_total{node="10.0.0.2",process="apid"} 0.28',
        'talos_process_cpu_seconds_total{node="10.0.0.2",process="etcd"} 4',
        'talos_process_threads{node="10.0.0.2",process="cri"} 0',
        'talos_process_resident_memory_bytes{node="10.0.0.2",process="machined"} 4096',
        'talos_process_open_fds{node="10.0.0.2",process="machined"} 104',
        'talos_process_open_fds{node="10.0.0.2",process="containerd-shim"} 45',
        'talos_service_healthy{node="10.0.0.2",service="apid"} 1',
        'talos_service_state{node="10.0.0.2",service="etcd",state="Running"} 1',
        'talos_time_offset_seconds{node="10.0.0.2"} -0.00025',
        'talos_dns_upstream_healthy{node="10.0.0.2",address="10.0.0.1:53"} 0',
        'talos_etcd_is_leader{node="10.0.0.2"} 1',
        'talos_controller_runs_total{node="10.0.0.2",controller="network.A"} 5',
        'talos_controller_failures_total{node="10.0.0.2",controller="network.A"} 1',
        'talos_controller_seconds_total{node="10.0.0.2",controller="network.A"} 0.25',
        f'talos_calls_total{{node="10.0.0.2",method="{SERVICE}Memory",code="OK"}} 2',
        f'talos_calls_total{{node="10.0.0.2",method="{SERVICE}Memory",code="PERMISSION_DENIED"}} 1',
        f'talos_calls_total{{node="10.0.0.2",method="{SERVICE}Events",code="CANCELLED"}} 1',
        "# TYPE talos_call_duration_seconds histogram",
        f'talos_call_duration_seconds_bucket{{node="10.0.0.2",method="{SERVICE}Memory",le="0.025"}} 3',
        f'talos_call_duration_seconds_bucket{{node="10.0.0.2",method="{SERVICE}Memory",le="+Inf"}} 4',
        f'talos_call_duration_seconds_sum{{node="10.0.0.2",method="{SERVICE}Memory"}} 0.5',
        f'talos_call_duration_seconds_count{{node="10.0.0.2",method="{SERVICE}Memory"}} 4',
        'talos_state_watches{node="10.0.0.2",type="Members.cluster.talos.dev"} 3',
        'talos_disk_working{node="10.0.0.2",device="sda"} 0',
        'talos_disk_working{node="10.0.0.2",device="nvme0n1"} 1',
        'talos_disk_errors_total{node="10.0.0.2",device="sda"} 4',
        f"talos_sensor_temperature_celsius{DRIVE} 41.5",
        f"talos_sensor_critical_celsius{DRIVE} 84",
        'talos_sensor_fan_rpm{node="10.0.0.2",chip="board",device="",sensor="fan1",label="CPU"} 1200',
        'talos_upgrade_phase{node="10.0.0.2",phase="idle",version=""} 1',
    ):
        assert f"{line}\n" in result.out
    assert "talos_scrape_failed" not in result.out
    assert "humidity" not in result.out
    assert f'talos_call_duration_seconds_sum{{node="10.0.0.2",method="{SERVICE}Events"' not in result.out
    assert 'talos_disk_errors_total{node="10.0.0.2",device="nvme0n1"' not in result.out
    assert 'service="etcd"} ' not in result.out.partition("talos_service_healthy")[2]


def test_a_node_that_answers_in_part_or_not_at_all(talosctl: Client, full_node: FakeNode) -> None:
    full_node.on(SERVICE + "Memory", Empty, GRPCError(Status.UNAVAILABLE, "no"))
    result = talosctl("metrics", "-n", NODE)
    assert result.code == 0
    assert 'talos_scrape_failed{node="10.0.0.2",subject="memory"} 1\n' in result.out
    assert 'talos_up{node="10.0.0.2"} 1\n' in result.out
    full_node.routes.clear()
    assert 'talos_up{node="10.0.0.2"} 0\n' in talosctl("metrics", "-n", NODE).out


def test_a_server_calls_nodes_at_each_scrape(talosctl: Client, full_node: FakeNode) -> None:
    flags = Flags(CLIENT_FLAGS)
    for name, value in (("talosconfig", str(talosctl.path)), ("nodes", NODE)):
        flags.set(next(flag for flag in CLIENT_FLAGS if flag.name == name), value)

    async def get(port: int, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        reply = await reader.read()
        writer.close()
        return reply

    async def main() -> None:
        async with await start_server(flags, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            head, _, body = (await get(port, b"GET /metrics HTTP/1.1\r\n\r\n")).partition(b"\r\n\r\n")
            assert head.startswith(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            )
            assert f"Content-Length: {len(body)}".encode() in head
            assert b'talos_up{node="10.0.0.2"} 1\n' in body
            assert b" 404 " in await get(port, b"GET / HTTP/1.1\r\n\r\n")
            assert b" 405 " in await get(port, b"POST /metrics HTTP/1.1\r\n\r\n")
            assert await get(port, b"x" * (2 * MAX_REQUEST)) == b""
            talosctl.path.unlink()
            assert b" 503 " in await get(port, b"GET /metrics?a HTTP/1.1\r\n\r\n")

    asyncio.run(main())


def test_text_of_labels() -> None:
    text = format_samples([Sample("talos_up", 1, {"node": 'a\\b"c\nd'})])
    assert text.splitlines()[:2] == ["# HELP talos_up Whether the node answered.", "# TYPE talos_up gauge"]
    assert text.endswith('talos_up{node="a\\\\b\\"c\\nd"} 1\n')
    assert re.fullmatch(r"(# (HELP|TYPE) .+\n|[a-z_]+\{.*\} [\d.e+-]+\n)+", text)
