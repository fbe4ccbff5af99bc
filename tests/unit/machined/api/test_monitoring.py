"""The kernel's counters, from this machine and from fixtures."""

import os
import socket as sockets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, override

import pytest
from google.protobuf.empty_pb2 import Empty

from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.machined.api.netstat import list_sockets
from talos.system.files import KernelFiles
from talos.testing.files import MemoryFiles

OWN_EXECUTABLE = str(Path("/proc/self/exe").readlink())
OWN_ARGS = Path("/proc/self/cmdline").read_text().rstrip("\0").replace("\0", " ")


def with_files(caller: Any, contents: dict[str, str | bytes], links: dict[str, str] | None = None) -> Any:
    ports = replace(caller.node.ports, files=MemoryFiles(contents, links))
    return caller.with_node(ports=ports)


async def call(caller: Any, method: str) -> Any:
    [message] = (await caller.call(method, Empty())).messages
    return message


async def test_system_stat(caller: Any) -> None:
    message = await call(caller, "SystemStat")
    assert len(message.cpu) == os.cpu_count()
    assert message.cpu_total.idle == pytest.approx(sum(cpu.idle for cpu in message.cpu), rel=0.01)
    assert message.boot_time > 1_500_000_000
    assert message.process_created > 0
    assert message.soft_irq_total >= message.soft_irq.sched


async def test_system_stat_counts_in_seconds(caller: Any) -> None:
    text = "cpu  100 0 250 30 0 0 0 0 0 0\ncpu0 100 0 250 30 0 0 0 0 0 0\nintr 7 3 4\nbtime 9\nnew_line x y\n"
    message = await call(with_files(caller, {"/proc/stat": text}), "SystemStat")
    assert (message.cpu_total.user, message.cpu_total.system, message.cpu_total.idle) == (1.0, 2.5, 0.3)
    assert (message.irq_total, list(message.irq), message.boot_time) == (7, [3, 4], 9)


async def test_cpu_info(caller: Any) -> None:
    message = await call(caller, "CPUInfo")
    assert [cpu.processor for cpu in message.cpu_info] == list(range(os.cpu_count() or 0))
    assert all(cpu.flags for cpu in message.cpu_info)


async def test_cpu_frequencies(caller: Any) -> None:
    folder = "/sys/devices/system/cpu"
    files: dict[str, str | bytes] = {
        f"{folder}/cpu10/cpufreq/scaling_cur_freq": "2400000\n",
        f"{folder}/cpu10/cpufreq/cpuinfo_min_freq": "800000\n",
        f"{folder}/cpu10/cpufreq/scaling_governor": "performance\n",
        f"{folder}/cpu2/cpufreq/scaling_cur_freq": "1\n",
        f"{folder}/cpu3/online": "1\n",
        f"{folder}/cpufreq/boost": "1\n",
    }
    two, ten = (await call(with_files(caller, files), "CPUFreqStats")).cpu_freq_stats
    assert two.current_frequency == 1
    assert ten == pb.CPUFreqStats(current_frequency=2400000, minimum_frequency=800000, governor="performance")
    await call(caller, "CPUFreqStats")


async def test_load_average(caller: Any) -> None:
    message = await call(with_files(caller, {"/proc/loadavg": "0.17 0.12 0.04 1/82 9\n"}), "LoadAvg")
    assert (message.load1, message.load5, message.load15) == (0.17, 0.12, 0.04)


async def test_memory_in_kilobytes(caller: Any) -> None:
    text = "MemTotal:  24684084 kB\nActive(anon): 5 kB\nNFS_Unstable: 6 kB\nHugePages_Total: 7\nZswap: 8 kB\n"
    found = (await call(with_files(caller, {"/proc/meminfo": text}), "Memory")).meminfo
    assert found == pb.MemInfo(memtotal=24684084, activeanon=5, nfsunstable=6, hugepagestotal=7)


async def test_memory_of_this_machine_fills_most_fields(caller: Any) -> None:
    found = (await call(caller, "Memory")).meminfo
    assert found.memtotal > found.memavailable > 0
    assert found.committedas > 0
    assert found.directmap2m > 0


async def test_mounts(caller: Any) -> None:
    stats = {row.mounted_on: row for row in (await call(caller, "Mounts")).stats}
    assert stats["/"].size > stats["/"].available > 0
    assert stats["/proc"].filesystem in ("proc", "none")  # a sandbox may call it either


async def test_mounts_with_odd_names(caller: Any, tmp_path: Any) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    text = f"/dev/sda\\0401 {str(folder).replace(' ', chr(92) + '040')} xfs rw 0 0\ngone /gone xfs rw 0 0\n"
    [row] = (await call(with_files(caller, {"/proc/mounts": text}), "Mounts")).stats
    assert (row.filesystem, row.mounted_on) == ("/dev/sda 1", str(folder))


async def test_disk_stats(caller: Any) -> None:
    text = (
        " 254 0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n"
        " 254 1 vda1 1 1 1 1 1 1 1 1 1 1 1\n 1 2 short 1\n"
    )
    message = await call(with_files(caller, {"/proc/diskstats": text}), "DiskStats")
    assert [disk.name for disk in message.devices] == ["vda", "vda1"]
    assert message.devices[0] == pb.DiskStat(
        name="vda",
        read_completed=1,
        read_merged=2,
        read_sectors=3,
        read_time_ms=4,
        write_completed=5,
        write_merged=6,
        write_sectors=7,
        write_time_ms=8,
        io_in_progress=9,
        io_time_ms=10,
        io_time_weighted_ms=11,
        discard_completed=12,
        discard_merged=13,
        discard_sectors=14,
        discard_time_ms=15,
    )
    assert (message.total.write_sectors, message.total.discard_time_ms) == (8, 15)
    assert (await call(caller, "DiskStats")).devices


async def test_network_device_stats(caller: Any) -> None:
    text = (
        "Inter-|\n face |\n  eth0:207335708 4520 1 2 3 4 5 6 246422 2630 7 8 9 10 11 12\n"
        "  lo: 10 1 0 0 0 0 0 0 10 1 0 0 0 0 0 0\n"
    )
    message = await call(with_files(caller, {"/proc/net/dev": text}), "NetworkDeviceStats")
    eth0, lo = message.devices
    assert (eth0.rx_bytes, eth0.tx_bytes, eth0.tx_compressed) == (207335708, 246422, 12)
    assert (lo.name, message.total.name, message.total.rx_packets) == ("lo", "eth0, lo", 4521)
    real = await call(caller, "NetworkDeviceStats")
    assert "lo" in [device.name for device in real.devices]


async def test_processes_of_this_machine(caller: Any) -> None:
    found = {process.pid: process for process in (await call(caller, "Processes")).processes}
    own = found[os.getpid()]
    assert own.ppid == os.getppid()
    assert own.threads >= 1
    assert own.virtual_memory > own.resident_memory > 1_000_000
    assert own.cpu_time > 0
    assert own.args == OWN_ARGS
    assert own.executable == OWN_EXECUTABLE


async def test_processes_with_odd_names_and_those_that_end(caller: Any) -> None:
    fields = " ".join(str(number) for number in range(4, 53))
    files: dict[str, str | bytes] = {
        "/proc/7/stat": f"7 (a) b (c) S {fields}\n",
        "/proc/7/cmdline": b"/bin/x\0-a\0\xff\0",
        "/proc/8/cmdline": "",
        "/proc/version": "Linux",
    }
    [process] = (await call(with_files(caller, files), "Processes")).processes
    assert (process.pid, process.command, process.state, process.ppid) == (7, "a) b (c", "S", 4)
    assert process.args == "/bin/x -a \ufffd"
    assert (process.cpu_time, process.threads, process.virtual_memory) == ((14 + 15) / 100, 20, 23)
    assert process.resident_memory == 24 * os.sysconf("SC_PAGE_SIZE")


# ruff: noqa: E501 - lines as the kernel writes them
TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:C350 00000000:0000 0A 00000000:00000005 00:00000000 00000000    50        0 1056 1 00000000aa 100 0
   1: 0100007F:C350 0200000A:1F90 01 00000003:00000000 02:000A7D00 00000001     0        0 1057 2 00000000ab 20 4
   2: 0100007F:C350 0200000A:1F91 06 00000000:00000000 03:00000100 00000000     0        0 0 3 00000000ac
"""
TCP6 = """\
  sl  local_address                         remote_address                        st ...
   0: 00000000000000000000000001000000:0016 00000000000000000000000000000000:0000 0A 00000000:00000000 \
00:00000000 00000000     0        0 99 1 00000000ad 100 0 0 10 0
"""
UDP = """\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
    5: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000   101        0 77 2 00000000ae 0
"""


@pytest.fixture
def connected(caller: Any) -> Any:
    files: dict[str, str | bytes] = {
        "/proc/self/net/tcp": TCP,
        "/proc/self/net/tcp6": TCP6,
        "/proc/self/net/udp": UDP,
        "/proc/12/comm": "apid\n",
        "/proc/12/fd/0": "",
        "/proc/12/fd/3": "",
    }
    links = {"/proc/12/fd/0": "/dev/null", "/proc/12/fd/3": "socket:[1056]", "/proc/12/fd/4": "socket:[99]"}
    return with_files(caller, files, links)


async def netstat(caller: Any, **request: Any) -> list[Any]:
    [message] = (await caller.call("Netstat", pb.NetstatRequest(**request))).messages
    return list(message.connectrecord)


async def test_netstat_has_every_column(connected: Any) -> None:
    found = await netstat(connected)
    assert [record.l4proto for record in found] == ["tcp", "tcp", "tcp", "tcp6", "udp"]
    listener, peer, waiting, six, udp = found
    assert (listener.localip, listener.localport, listener.remoteip) == ("127.0.0.1", 50000, "0.0.0.0")
    assert (listener.rxqueue, listener.uid, listener.inode) == (5, 50, 1056)
    assert (peer.remoteip, peer.remoteport, peer.txqueue) == ("10.0.0.2", 8080, 3)
    assert (peer.tr, peer.timerwhen, peer.retrnsmt) == (pb.ConnectRecord.KEEPALIVE, 0xA7D00, 1)
    assert (waiting.state, waiting.pointer) == (pb.ConnectRecord.TIME_WAIT, 0xAC)
    assert (six.localip, six.localport, six.remoteip) == ("::1", 22, "::")
    assert (udp.state, udp.localport, udp.netns) == (pb.ConnectRecord.CLOSE, 53, "host")
    assert all(record.HasField("process") and record.process.pid == 0 for record in found)


async def test_netstat_has_processes_when_requested(connected: Any) -> None:
    found = await netstat(connected, feature=pb.NetstatRequest.Feature(pid=True))
    assert [(record.process.pid, record.process.name) for record in found] == [
        (12, "apid"),
        (0, ""),
        (0, ""),
        (12, "apid"),
        (0, ""),
    ]


async def test_netstat_filters(connected: Any) -> None:
    listening = await netstat(connected, filter=pb.NetstatRequest.LISTENING)
    assert [record.localport for record in listening] == [50000, 22, 53]
    peers = await netstat(connected, filter=pb.NetstatRequest.CONNECTED)
    assert [record.remoteport for record in peers] == [8080, 8081]
    tcp6 = await netstat(connected, l4proto=pb.NetstatRequest.L4proto(tcp6=True))
    assert [record.l4proto for record in tcp6] == ["tcp6"]


async def test_netstat_of_this_machine_finds_our_own_socket(caller: Any) -> None:
    with sockets.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        found = await netstat(
            caller, filter=pb.NetstatRequest.LISTENING, feature=pb.NetstatRequest.Feature(pid=True)
        )
    [own] = [record for record in found if record.localport == port and record.l4proto == "tcp"]
    assert (own.localip, own.process.pid) == ("127.0.0.1", os.getpid())


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nowhere", Code.NOT_FOUND),
        ("x" * 5000, Code.NOT_FOUND),
        ("../../proc/1/ns/net", Code.INVALID_ARGUMENT),
        ("a\0b", Code.INVALID_ARGUMENT),
    ],
)
async def test_netstat_refuses_namespaces_that_are_none(caller: Any, name: str, code: Code) -> None:
    with pytest.raises(RpcError) as caught:
        await netstat(caller, netns=pb.NetstatRequest.NetNS(netns=[name]))
    assert caught.value.code is code


async def test_netstat_reads_a_namespace_once_however_often_it_is_named(connected: Any) -> None:
    named = pb.NetstatRequest.NetNS(netns=["host"] * 10_000, hostnetwork=True)
    assert len(await netstat(connected, netns=named)) == len(await netstat(connected))


def test_a_pod_that_ends_while_all_are_read_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "unmounted").touch()

    class Listed(KernelFiles):
        @override
        def list(self, path: str) -> Sequence[str]:
            return ["removed", "unmounted"] if path == str(tmp_path) else super().list(path)

    request = pb.NetstatRequest(netns=pb.NetstatRequest.NetNS(allnetns=True))
    [message] = list_sockets(Listed(), request, str(tmp_path)).messages
    assert {record.netns for record in message.connectrecord} <= {"host"}
