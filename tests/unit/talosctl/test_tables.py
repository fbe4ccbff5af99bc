"""Tables that scripts read by their headers: ``diskfree``, ``usage``, ``netstat``."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf.empty_pb2 import Empty
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.cosi.resource_pb2 import Metadata, Resource, Spec
from talos.api.cosi.state_pb2 import GetRequest, GetResponse, ListRequest, ListResponse
from talos.api.definitions.block_pb2 import MountRequestSpec, MountStatusSpec, VolumeStatusSpec
from talos.api.definitions.enums_pb2 import BlockVolumePhase, BlockVolumeType
from talos.api.machine import machine_pb2 as machine
from talos.api.machine.storage_pb2 import StorageServiceStatfsRequest, StorageServiceStatfsResponse
from talos.talosctl.cli.exit import Exit

STATFS = StorageServiceStatfsResponse(
    size=6 << 30, used=960 << 20, available=5 << 30, inodes=3_145_728, inodes_used=999, inodes_free=3_144_729
)


def mounted(volume: str, source: str, target: str, *, detached: bool = False) -> ListResponse:
    spec = MountStatusSpec(
        spec=MountRequestSpec(volume_id=volume), source=source, target=target, detached=detached
    )
    metadata = Metadata(namespace="runtime", type="MountStatuses.block.talos.dev", id=volume)
    return ListResponse(resource=Resource(metadata=metadata, spec=Spec(proto_spec=spec.SerializeToString())))


@pytest.fixture
def volumes(node: FakeNode) -> FakeNode:
    """One volume with a filesystem, one without a device, one that is detached."""
    statuses = [
        mounted("EPHEMERAL", "/dev/vda6", "/var"),
        mounted("/var/log", "", "/var/log"),
        mounted("u-old", "/dev/vdb1", "/var/mnt/old", detached=True),
    ]
    node.on("/cosi.resource.State/List", ListRequest, statuses, stream=True)
    node.on("/machine.StorageService/Statfs", StorageServiceStatfsRequest, STATFS)

    def volume(request: Any, _metadata: Mapping[str, str]) -> GetResponse:
        types = {"/var/log": BlockVolumeType.VOLUME_TYPE_DIRECTORY}
        phases = {"u-late": BlockVolumePhase.VOLUME_PHASE_WAITING}
        spec = VolumeStatusSpec(
            type=types.get(request.id, BlockVolumeType.VOLUME_TYPE_PARTITION),
            phase=phases.get(request.id, BlockVolumePhase.VOLUME_PHASE_READY),
        )
        return GetResponse(resource=Resource(spec=Spec(proto_spec=spec.SerializeToString())))

    node.on("/cosi.resource.State/Get", GetRequest, volume)
    return node


def test_diskfree_lists_filesystems(talosctl: Client, volumes: FakeNode) -> None:
    result = talosctl("df", "-n", "10.0.0.2")
    assert result.out == (
        "NODE       VOLUME      FILESYSTEM   SIZE     USED     AVAILABLE   USAGE   MOUNT POINT\n"
        "10.0.0.2   EPHEMERAL   /dev/vda6    6.0GiB   960MiB   5.0GiB      16%     /var\n"
    )
    result = talosctl("df", "-i", "-n", "10.0.0.2")
    assert result.out == (
        "NODE       VOLUME      FILESYSTEM   INODES   IUSED   IFREE   %IUSED   MOUNT POINT\n"
        "10.0.0.2   EPHEMERAL   /dev/vda6    3.1M     999     3.1M    1%       /var\n"
    )
    assert " 6442450944 " in talosctl("df", "-b", "-n", "10.0.0.2", "EPHEMERAL").out


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        ("/var/log", "is a directory volume, which has no filesystem of its own"),
        ("u-late", "is not ready (phase: waiting)"),
        ("u-none", "is not mounted"),
    ],
)
def test_diskfree_of_a_volume_without_filesystem(
    talosctl: Client, volumes: FakeNode, volume: str, text: str
) -> None:
    result = talosctl("df", "-n", "10.0.0.2", volume)
    assert (result.code, result.out) == (1, "")
    assert f'10.0.0.2: volume "{volume}": {text}' in result.err


def test_usage_requests_the_sums_only(talosctl: Client, node: FakeNode) -> None:
    infos = [machine.DiskUsageInfo(name="/var", relative_name="/var", size=4096)]
    node.on("/machine.MachineService/DiskUsage", machine.DiskUsageRequest, infos, stream=True)
    assert talosctl("usage", "/var", "-n", "10.0.0.2").out == "SIZE   NAME\n4096   /var\n"
    assert node.seen[-1][2].recursion_depth == 1
    talosctl("du", "/var", "-d", "2", "-n", "10.0.0.2")
    assert node.seen[-1][2].recursion_depth == 3


def test_netstat_names_its_columns_as_netstat_does(talosctl: Client, node: FakeNode) -> None:
    record = machine.ConnectRecord(
        l4proto="tcp",
        localip="0.0.0.0",
        localport=50000,
        remoteip="0.0.0.0",
        state=machine.ConnectRecord.LISTEN,
        inode=7,
        process=machine.ConnectRecord.Process(pid=9, name="apid"),
    )
    reply = machine.NetstatResponse(messages=[machine.Netstat(connectrecord=[record])])
    node.on("/machine.MachineService/Netstat", machine.NetstatRequest, reply)
    lines = talosctl("netstat", "-alpx", "-n", "10.0.0.2").out.splitlines()
    titles = [
        "NODE", "Proto", "Recv-Q", "Send-Q", "Local Address", "Foreign Address", "State", "Uid", "Inode",
        "PID/Program name",
    ]  # fmt: skip
    assert [title.strip() for title in re.split(r" {2,}", lines[0])] == titles
    assert lines[1].split() == [
        "10.0.0.2", "tcp", "0", "0", "0.0.0.0:50000", "0.0.0.0:*", "LISTEN", "0", "7", "9/apid",
    ]  # fmt: skip


def test_netstat_of_a_pod_requests_its_namespace(talosctl: Client, node: FakeNode) -> None:
    sandbox = machine.ContainerInfo(
        id="default/web", pod_id="default/web", pid=7, network_namespace="cni-1", namespace="k8s.io"
    )
    other = machine.ContainerInfo(
        id="default/web:nginx", pod_id="default/web", pid=8, network_namespace="cni-2"
    )
    containers = machine.ContainersResponse(messages=[machine.Container(containers=[sandbox, other])])
    node.on("/machine.MachineService/Containers", machine.ContainersRequest, containers)
    reply = machine.NetstatResponse(messages=[machine.Netstat()])
    node.on("/machine.MachineService/Netstat", machine.NetstatRequest, reply)
    assert talosctl("netstat", "default/Web", "-n", "10.0.0.2").code == 0
    request = node.seen[-1][2]
    assert list(request.netns.netns) == ["cni-1"]
    assert not request.netns.hostnetwork
    result = talosctl("netstat", "default/db", "-n", "10.0.0.2")
    assert (result.code, result.out) == (1, "")
    assert "pod default/db: is on none of the nodes" in result.err
    assert talosctl("netstat", "default/web", "-k", "-n", "10.0.0.2").code == Exit.USAGE


@pytest.mark.parametrize("verb", ["validate", "enable", "cancel"])
def test_downgrades_are_reported_in_upstreams_words(talosctl: Client, node: FakeNode, verb: str) -> None:
    name = f"EtcdDowngrade{verb.title()}"
    request = getattr(machine, f"{name}Request", Empty)
    part = getattr(machine, name)(cluster_downgrade=machine.EtcdClusterDowngrade(cluster_version="3.7"))
    node.on(f"/machine.MachineService/{name}", request, getattr(machine, f"{name}Response")(messages=[part]))
    version = () if verb == "cancel" else ("3.6",)
    result = talosctl("etcd", "downgrade", verb, *version, "-n", "10.0.0.2")
    assert result.out == (f"NODE       MESSAGE\n10.0.0.2   downgrade {verb} success, cluster version 3.7\n")


def test_an_older_flag_works_and_names_what_replaces_it(talosctl: Client, node: FakeNode) -> None:
    pod = machine.ContainerInfo(namespace="k8s.io", id="kube-system/a", pod_id="kube-system/a")
    reply = machine.ContainersResponse(messages=[machine.Container(containers=[pod])])
    node.on("/machine.MachineService/Containers", machine.ContainersRequest, reply)
    old, new = (talosctl("containers", *flag, "-n", "10.0.0.2") for flag in (("-k",), ("--namespace", "cri")))
    assert old.out == new.out
    assert "kube-system/a" in old.out
    assert old.err == "Flag --kubernetes has been deprecated, use --namespace cri instead\n"
    assert new.err == ""


def test_only_one_flag_says_whose_containers(talosctl: Client) -> None:
    both = talosctl("containers", "--kubernetes", "--namespace", "other", "-n", "10.0.0.2")
    assert (both.code, both.out) == (Exit.USAGE, "")
    assert "only one of the flags --kubernetes, --namespace can be set" in both.err
    other = talosctl("containers", "--namespace", "other", "-n", "10.0.0.2")
    assert (other.code, '"other" has no containers (system or cri)' in other.err) == (Exit.USAGE, True)
