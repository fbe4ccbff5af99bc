"""Services, logs, events, power, version, disks: the state of the rest of PID 1."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from talos.api.containerd import (
    cgroups_v1_pb2,
    cgroups_v2_pb2,
    containers_pb2,
    cri_pb2,
    metric_pb2,
    task_pb2,
    tasks_pb2,
)
from talos.api.definitions import block_pb2
from talos.api.machine import machine_pb2 as pb
from talos.api.resource import config_pb2
from talos.api.rpc import Code, RpcError
from talos.api.storage import storage_pb2
from talos.machined.api.grpc_services import make_services
from talos.resource.kinds import DISK, MACHINE_CONFIG, SYSTEM_DISK
from talos.resource.resource import make_resource
from talos.system.version import get_version
from talos.testing.files import MemoryFiles

from .conftest import LOCKED_ACTOR


async def fail(caller: Any, method: str, request: Message) -> tuple[Code, str]:
    with pytest.raises(RpcError) as caught:
        await caller.call(method, request)
    return caught.value.code, caught.value.message


async def test_version(caller: Any) -> None:
    [message] = (await caller.call("Version", Empty())).messages
    assert message.version.tag == get_version().tag
    assert message.version.tag.startswith("v1.")
    assert (message.version.os, message.version.arch in {"amd64", "arm64"}) == ("linux", True)
    assert (message.platform.name, message.platform.mode) == ("container", "container")
    assert not message.HasField("features")


async def test_version_has_roles_once_there_is_a_config(caller: Any) -> None:
    spec = config_pb2.MachineConfigSpec(yaml_marshalled=b"version: v1alpha1")
    await caller.node.state.create(make_resource(MACHINE_CONFIG, "v1alpha1", spec))
    [message] = (await caller.call("Version", Empty())).messages
    assert message.features.rbac


async def test_hostname(caller: Any) -> None:
    ports = replace(caller.node.ports, files=MemoryFiles({"/proc/sys/kernel/hostname": "node-a\n"}))
    [message] = (await caller.with_node(ports=ports).call("Hostname", Empty())).messages
    assert message.hostname == "node-a"


async def test_service_list(caller: Any) -> None:
    [message] = (await caller.call("ServiceList", Empty())).messages
    apid = message.services[0]
    assert (apid.id, apid.state, apid.events.events[0].state) == ("apid", "Running", "Running")
    assert (apid.events.events[0].msg, apid.events.events[0].ts.seconds) == ("Started", 10)
    assert (apid.health.healthy, apid.health.last_change.nanos) == (True, 500_000_000)


async def test_services_that_may_be_touched(caller: Any) -> None:
    reply = await caller.call("ServiceRestart", pb.ServiceRestartRequest(id="kubelet"))
    assert reply.messages[0].resp == 'Service "kubelet" restarted'
    await caller.call("ServiceStart", pb.ServiceStartRequest(id="kubelet"))
    await caller.call("ServiceStop", pb.ServiceStopRequest(id="kubelet"))
    assert caller.node.services.done == [("restart", "kubelet"), ("start", "kubelet"), ("stop", "kubelet")]


async def test_services_that_may_not_be_touched(caller: Any) -> None:
    assert await fail(caller, "ServiceStop", pb.ServiceStopRequest(id="apid")) == (
        Code.FAILED_PRECONDITION,
        'service "apid" doesn\'t support stop operation via API',
    )
    assert await fail(caller, "ServiceStart", pb.ServiceStartRequest(id="nope")) == (
        Code.NOT_FOUND,
        'service "nope" not defined',
    )


async def test_logs(caller: Any) -> None:
    frames = await caller.read("Logs", pb.LogsRequest(namespace="system", id="apid", tail_lines=-1))
    assert b"".join(frame.bytes for frame in frames) == b"one\ntwo\nthree\n"
    assert caller.node.logs.options == {"id": "apid", "follow": False, "tail_lines": -1}
    followed = pb.LogsRequest(namespace="k8s.io", id="kubelet", follow=True, tail_lines=5)
    [frame] = await caller.read_first("Logs", followed, 1)
    assert frame.bytes == b"k\n"
    assert caller.node.logs.options == {"id": "kubelet", "follow": True, "tail_lines": 5}


async def test_long_logs_come_in_pieces(caller: Any) -> None:
    caller.node.logs.append("big", bytes(200_000))
    frames = await caller.read("Logs", pb.LogsRequest(namespace="system", id="big", tail_lines=-1))
    assert max(len(frame.bytes) for frame in frames) <= 65536
    assert sum(len(frame.bytes) for frame in frames) == 200_000


@pytest.mark.parametrize(
    ("namespace", "id", "code"),
    [
        ("system", "nope", Code.UNKNOWN),
        ("k8s.io", "kube-system/pod", Code.UNKNOWN),
        ("moby", "x", Code.INVALID_ARGUMENT),
    ],
)
async def test_logs_that_are_not_there(caller: Any, namespace: str, id: str, code: Code) -> None:
    with pytest.raises(RpcError) as caught:
        await caller.read("Logs", pb.LogsRequest(namespace=namespace, id=id))
    assert caught.value.code is code
    assert id != "nope" or caught.value.message.endswith('log "nope" was not registered')


async def test_the_log_of_a_service_that_wrote_nothing_is_empty(caller: Any) -> None:
    idle = caller.node.services.statuses["kubelet"]
    caller.node.services.statuses["idle"] = replace(idle, id="idle")
    assert await caller.read("Logs", pb.LogsRequest(namespace="system", id="idle")) == []


async def test_logs_containers(caller: Any) -> None:
    [message] = (await caller.call("LogsContainers", Empty())).messages
    assert list(message.ids) == ["apid", "kubelet"]


async def test_a_log_is_found_under_the_name_that_clients_know(caller: Any) -> None:
    caller.node.logs.append("dnsd", b"line\n")
    [frame] = await caller.read(
        "Logs", pb.LogsRequest(namespace="system", id="dns-resolve-cache", tail_lines=-1)
    )
    assert frame.bytes == b"line\n"
    [message] = (await caller.call("LogsContainers", Empty())).messages
    assert {"dnsd", "dns-resolve-cache"} <= set(message.ids)


async def test_dmesg(caller: Any) -> None:
    frames = await caller.read("Dmesg", pb.DmesgRequest())
    assert [frame.bytes for frame in frames] == [b"kern: info: one\n", b"kern: info: two\n"]
    assert await caller.read("Dmesg", pb.DmesgRequest(tail=True)) == []
    assert len(await caller.read_first("Dmesg", pb.DmesgRequest(follow=True), 2)) == 2


async def test_events_begin_with_a_hello(caller: Any) -> None:
    caller.node.events.publish(pb.RestartEvent(cmd=3), actor_id="actor")
    request = pb.EventsRequest(tail_events=-1, tail_seconds=60, with_actor_id="actor")
    hello, event = await caller.read_first("Events", request, 2)
    assert (hello.data.type_url, hello.actor_id, len(hello.id)) == ("", "actor", 20)
    assert hello.HasField("data")
    assert event.data.type_url == "talos/runtime/machine.RestartEvent"
    assert pb.RestartEvent.FromString(event.data.value).cmd == 3
    assert (event.actor_id, len(event.id)) == ("actor", 20)
    assert caller.node.events.options == {
        "tail": -1,
        "after_id": "",
        "seconds": 60,
        "actor_id": "actor",
    }


@pytest.mark.parametrize(
    ("tail_id", "after_id", "seconds"), [("9" * 20, "9" * 20, 0), ("24h", "", 86400), ("1m30s", "", 90)]
)
async def test_events_since(caller: Any, tail_id: str, after_id: str, seconds: float) -> None:
    await caller.read_first("Events", pb.EventsRequest(tail_id=tail_id), 1)
    assert caller.node.events.options == {
        "tail": 0,
        "after_id": after_id,
        "seconds": seconds,
        "actor_id": "",
    }


async def test_events_since_what_is_no_time(caller: Any) -> None:
    with pytest.raises(RpcError, match="error parsing tail_id") as caught:
        await caller.read("Events", pb.EventsRequest(tail_id="x"))
    assert caught.value.code is Code.INVALID_ARGUMENT


async def test_reboot_and_shutdown_answer_with_an_actor(caller: Any) -> None:
    reply = await caller.call("Reboot", pb.RebootRequest(mode=pb.RebootRequest.FORCE))
    assert len(reply.messages[0].actor_id) == 36
    await caller.call("Shutdown", pb.ShutdownRequest(force=True))
    assert caller.node.power.begun == ["reboot FORCE", "shutdown True"]
    assert (await fail(caller, "Reboot", pb.RebootRequest(mode=77)))[0] is Code.INVALID_ARGUMENT  # type: ignore[arg-type]
    caller.node.power.locked = True
    [message] = (await caller.call("Reboot", pb.RebootRequest())).messages
    assert message.actor_id == LOCKED_ACTOR
    assert len(caller.node.power.begun) == 2


async def test_what_a_container_has_no_means_for(caller: Any) -> None:
    for method, request in (("MetaDelete", pb.MetaDeleteRequest()), ("MetaWrite", pb.MetaWriteRequest())):
        assert await fail(caller, method, request) == (
            Code.FAILED_PRECONDITION,
            "method is not supported in container mode",
        )


async def test_every_method_has_a_handler_or_is_unimplemented(caller: Any) -> None:
    for service in make_services(caller.node):
        names = {method.name for method in service.descriptor.methods}
        assert service.handlers.keys() == names
    assert await fail(caller, "EtcdStatus", Empty()) == (
        Code.UNIMPLEMENTED,
        "machine.MachineService/EtcdStatus is not supported by this version yet",
    )


async def test_disks(caller: Any) -> None:
    state = caller.node.state
    disk = block_pb2.DiskSpec(
        size=1 << 30, model="QEMU", dev_path="/dev/vda", transport="virtio", serial="s", readonly=True
    )
    await state.create(make_resource(DISK, "vda", disk))
    await state.create(make_resource(DISK, "sda", block_pb2.DiskSpec(rotational=True, transport="sata")))
    await state.create(make_resource(DISK, "sr0", block_pb2.DiskSpec(cdrom=True)))
    await state.create(make_resource(SYSTEM_DISK, "system-disk", block_pb2.SystemDiskSpec(disk_id="vda")))
    [message] = (await caller.call("Disks", Empty(), "storage.StorageService")).messages
    sda, sr0, vda = message.disks
    assert (sda.type, sr0.type, vda.type) == (storage_pb2.Disk.HDD, storage_pb2.Disk.CD, storage_pb2.Disk.SSD)
    assert (vda.device_name, vda.size, vda.system_disk, vda.readonly) == ("/dev/vda", 1 << 30, True, True)
    assert not sda.system_disk


POD = {
    "io.kubernetes.pod.namespace": "kube-system",
    "io.kubernetes.pod.name": "flannel-x",
    "io.kubernetes.pod.uid": "uid-1",
}
SPEC = b'{"linux":{"namespaces":[{"type":"pid"},{"type":"network","path":"/var/run/netns/cni-7"}]}}'


def make_replies() -> Mapping[str, Message]:
    one = cgroups_v1_pb2.Metrics()
    one.memory.usage.usage, one.cpu.usage.total = 4096, 77
    two = cgroups_v2_pb2.Metrics()
    two.memory.usage, two.cpu.usage_usec = 8192, 5
    container = containers_pb2.Container
    sandbox = container(
        id="s" * 64,
        labels={**POD, "io.cri-containerd.kind": "sandbox"},
        image="pause",
        spec=AnyMessage(value=SPEC),
    )
    labels = {**POD, "io.cri-containerd.kind": "container", "io.kubernetes.container.name": "flanneld"}
    return {
        "/containerd.services.containers.v1.Containers/List": containers_pb2.ListContainersResponse(
            containers=[
                container(id="c" * 64, labels=labels, image="flannel:1"),
                sandbox,
                container(id="etcd", image="etcd:3"),
                container(id="idle"),
            ]
        ),
        "/containerd.services.tasks.v1.Tasks/List": tasks_pb2.ListTasksResponse(
            tasks=[
                task_pb2.Process(id="s" * 64, pid=10, status=task_pb2.RUNNING),
                task_pb2.Process(container_id="c" * 64, pid=11, status=task_pb2.STOPPED),
                task_pb2.Process(id="etcd", pid=12, status=task_pb2.RUNNING),
            ]
        ),
        "/containerd.services.tasks.v1.Tasks/Metrics": tasks_pb2.MetricsResponse(
            metrics=[
                metric_pb2.Metric(
                    id="etcd",
                    data=AnyMessage(
                        type_url="io.containerd.cgroups.v1.Metrics", value=one.SerializeToString()
                    ),
                ),
                metric_pb2.Metric(
                    id="s" * 64,
                    data=AnyMessage(
                        type_url="types.googleapis.com/io.containerd.cgroups.v2.Metrics",
                        value=two.SerializeToString(),
                    ),
                ),
            ]
        ),
        "/containerd.services.tasks.v1.Tasks/Kill": Empty(),
        "/runtime.v1.RuntimeService/ListContainers": cri_pb2.ListContainersResponse(
            containers=[cri_pb2.Container(id="c" * 64, state=cri_pb2.CONTAINER_EXITED)]
        ),
    }


@pytest.fixture
def contained(caller: Any, make_transport: Any) -> tuple[Any, Any]:
    transport = make_transport(make_replies())
    paths: list[str] = []

    @asynccontextmanager
    async def connect(path: str) -> AsyncGenerator[Any]:
        paths.append(path)
        yield transport

    files = MemoryFiles({"/run/containerd/containerd.sock": "", "/system/run/containerd/containerd.sock": ""})
    ports = replace(caller.node.ports, files=files)
    return caller.with_node(connect=connect, ports=ports), transport


async def test_containers_of_pods_and_of_the_system(contained: tuple[Any, Any]) -> None:
    caller, transport = contained
    [message] = (await caller.call("Containers", pb.ContainersRequest(namespace="k8s.io"))).messages
    etcd, idle, sandbox, flanneld = message.containers
    assert (etcd.id, etcd.pod_id, etcd.name, etcd.status, etcd.pid) == ("etcd", "etcd", "etcd", "RUNNING", 12)
    assert (idle.status, idle.pid) == ("UNKNOWN", 0)
    assert (sandbox.id, sandbox.status) == ("kube-system/flannel-x", "SANDBOX_READY")
    assert (sandbox.network_namespace, sandbox.uid) == ("cni-7", "uid-1")
    assert flanneld.id == "kube-system/flannel-x:flanneld:cccccccccccc"
    assert (flanneld.pod_id, flanneld.name) == ("kube-system/flannel-x", "flanneld")
    assert (flanneld.status, flanneld.internal_id) == ("CONTAINER_EXITED", "c" * 64)
    assert transport.metadata[0] == {"containerd-namespace": ["k8s.io"]}


async def test_stats_of_both_kinds_of_control_groups(contained: tuple[Any, Any]) -> None:
    [message] = (await contained[0].call("Stats", pb.StatsRequest(namespace="system"))).messages
    apid, etcd, sandbox = message.stats
    assert (apid.id, apid.memory_usage, apid.cpu_usage) == ("apid", 1 << 20, 5_000)
    assert (etcd.id, etcd.memory_usage, etcd.cpu_usage) == ("etcd", 4096, 77)
    assert (sandbox.id, sandbox.memory_usage, sandbox.cpu_usage) == ("kube-system/flannel-x", 8192, 5000)


async def test_daemons_are_containers_of_the_system(contained: tuple[Any, Any]) -> None:
    caller, transport = contained
    [message] = (await caller.call("Containers", pb.ContainersRequest(namespace="system"))).messages
    apid = message.containers[0]
    assert (apid.id, apid.pod_id, apid.name, apid.pid, apid.status) == ("apid", "apid", "apid", 47, "RUNNING")
    await caller.call("Restart", pb.RestartRequest(namespace="system", id="apid"))
    assert caller.node.services.done == [("terminate", "apid")]
    await caller.call("Restart", pb.RestartRequest(namespace="k8s.io", id="kube-system/flannel-x"))
    assert transport.methods[-1] == "/containerd.services.tasks.v1.Tasks/Kill"
    code, text = await fail(caller, "Restart", pb.RestartRequest(namespace="system", id="nope"))
    assert (code, text) == (Code.UNKNOWN, 'container "nope" not found')


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", Code.INVALID_ARGUMENT),
        ("nope0", Code.NOT_FOUND),
        ("a\0b", Code.NOT_FOUND),
        ("x" * 5000, Code.NOT_FOUND),
    ],
)
async def test_captures_need_an_interface(caller: Any, name: str, code: Code) -> None:
    with pytest.raises(RpcError) as caught:
        await caller.read("PacketCapture", pb.PacketCaptureRequest(interface=name))
    assert caught.value.code is code


async def test_containers_without_containerd(caller: Any) -> None:
    ports = replace(caller.node.ports, files=MemoryFiles({"/run/x": ""}))
    code, text = await fail(
        caller.with_node(ports=ports), "Containers", pb.ContainersRequest(namespace="system")
    )
    assert code is Code.UNAVAILABLE
    assert "/system/run/containerd/containerd.sock" in text
    reply = await caller.with_node(ports=ports).call("Containers", pb.ContainersRequest(namespace="k8s.io"))
    assert not reply.messages[0].containers
    code, _ = await fail(caller, "Stats", pb.StatsRequest(namespace="moby"))
    assert code is Code.INVALID_ARGUMENT
