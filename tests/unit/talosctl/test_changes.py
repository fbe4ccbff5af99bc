"""Commands that change a node: configurations and power."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.common.common_pb2 import Data, Error
from talos.api.cosi import meta_pb2 as meta
from talos.api.cosi import resource_pb2 as resource
from talos.api.cosi import state_pb2 as state
from talos.api.machine import machine_pb2 as machine
from talos.talosctl.cli.exit import Exit

APPLY = "/machine.MachineService/ApplyConfiguration"
CONFIG = "version: v1alpha1\nmachine:\n    type: worker\n    token: abcdef.0123456789abcdef\n"


@pytest.fixture
def applied(node: FakeNode):
    reply = machine.ApplyConfigurationResponse(
        messages=[
            machine.ApplyConfiguration(
                warnings=["old field"], mode_details="Applied configuration without a reboot"
            )
        ]
    )
    node.on(APPLY, machine.ApplyConfigurationRequest, reply)
    return node


@pytest.fixture
def with_config(applied: FakeNode):
    spec = meta.ResourceDefinitionSpec(
        resource_type="MachineConfigs.config.talos.dev",
        display_type="MachineConfig",
        default_namespace="config",
        all_aliases=["machineconfig", "mc"],
    )
    metadata = resource.Metadata(id="machineconfigs.config.talos.dev")
    definition = resource.Resource(metadata=metadata, spec=resource.Spec(proto_spec=spec.SerializeToString()))
    config = resource.Resource(spec=resource.Spec(yaml_spec=json.dumps(CONFIG) + "\n"))
    applied.on(
        "/cosi.resource.State/List", state.ListRequest, [state.ListResponse(resource=definition)], stream=True
    )
    applied.on("/cosi.resource.State/Get", state.GetRequest, state.GetResponse(resource=config))
    return applied


def requests(node: FakeNode, path: str = APPLY) -> list[Any]:
    return [request for seen, _, request in node.seen if seen == path]


def test_apply_config(talosctl: Client, applied: FakeNode, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)
    result = talosctl(
        "apply-config",
        "-f",
        str(tmp_path / "c.yaml"),
        "-n",
        "10.0.0.2",
        "--mode",
        "try",
        "--timeout",
        "90s",
        "--dry-run",
    )
    assert result.code == 0
    assert result.err == "WARNING: old field\nApplied configuration without a reboot\n"
    request = requests(applied)[0]
    assert request.data.decode() == CONFIG
    assert (request.mode, request.dry_run) == (machine.ApplyConfigurationRequest.TRY, True)
    assert request.try_mode_timeout == Duration(seconds=90)


def test_mistakes_have_the_name_of_the_file(talosctl: Client, node: FakeNode, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG)
    refused = GRPCError(Status.INVALID_ARGUMENT, "2:17: machine.type: wrong\n3:1: machine.bar: unknown key")
    node.on(APPLY, machine.ApplyConfigurationRequest, refused)
    result = talosctl("apply", "-f", str(path), "-n", "10.0.0.2")
    assert result.code == Exit.REFUSED
    assert (
        f"code = InvalidArgument desc = {path}:2:17: machine.type: wrong\n{path}:3:1: machine.bar"
        in result.err
    )
    patched = talosctl("apply", "-f", str(path), "-p", "machine: {certSANs: [a]}", "-n", "10.0.0.2")
    assert "code = InvalidArgument desc = 2:17: machine.type" in patched.err


def test_apply_config_with_patch(talosctl: Client, applied: FakeNode, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)
    result = talosctl("apply", "-f", str(tmp_path / "c.yaml"), "-p", "machine: {certSANs: [a.example]}")
    assert result.code == 0
    assert len(requests(applied)) == 2
    assert "a.example" in requests(applied)[0].data.decode()
    assert "10.0.0.2: WARNING: old field" in result.err


def test_apply_config_without_a_file(talosctl: Client) -> None:
    result = talosctl("apply-config")
    assert result.code == Exit.USAGE
    assert "no file is named" in result.err


def test_patch(talosctl: Client, with_config: FakeNode) -> None:
    result = talosctl("patch", "mc", "-p", "machine: {certSANs: [a.example]}", "-n", "10.0.0.2")
    assert result.code == 0, result.err
    assert "patched mc at the node 10.0.0.2" in result.err
    assert "a.example" in requests(with_config)[0].data.decode()


def test_bad_patch_is_refused_before_anything_is_sent(talosctl: Client, with_config: FakeNode) -> None:
    result = talosctl("patch", "mc", "-p", "machine: {certSAN: []}", "-n", "10.0.0.2")
    assert result.code == 1
    assert "certSAN" in result.err
    assert not with_config.seen


def edit(talosctl: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str):
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("TALOS_EDITOR", raising=False)
    return talosctl("edit", "mc", "-n", "10.0.0.2")


def test_edit(
    talosctl: Client, with_config: FakeNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = edit(talosctl, monkeypatch, tmp_path, 'sed -i "s/type: worker/type: controlplane/" "$1"')
    assert result.code == 0, result.err
    sent = requests(with_config)[0].data.decode()
    assert sent == CONFIG.replace("worker", "controlplane")


def test_edit_without_a_change_sends_nothing(
    talosctl: Client, with_config: FakeNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = edit(talosctl, monkeypatch, tmp_path, "true")
    assert "edit cancelled" in result.err
    assert not requests(with_config)


def test_edit_shows_mistakes_and_prompts_again(
    talosctl: Client, with_config: FakeNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The second time, the mistake is named at the top and is taken back.
    script = (
        'if grep -q "^#! .*typo" "$1"; then sed -i s/typo/token/ "$1"; else sed -i s/token/typo/ "$1"; fi'
    )
    result = edit(talosctl, monkeypatch, tmp_path, script)
    assert result.code == 0, result.err
    assert not requests(with_config)
    assert "cancelled" in result.err


def event(message: Message, actor: str = "actor-1") -> machine.Event:
    data = AnyMessage(
        type_url=f"talos/runtime/{message.DESCRIPTOR.full_name}", value=message.SerializeToString()
    )
    return machine.Event(data=data, id="cid", actor_id=actor)


def sequence(action: machine.SequenceEvent.Action, error: str = "") -> machine.Event:
    message = machine.SequenceEvent(sequence="shutdown", action=action)
    if error:
        message.error.CopyFrom(Error(message=error))
    return event(message)


def serve_shutdown(node: FakeNode, *events: machine.Event) -> None:
    reply = machine.ShutdownResponse(messages=[machine.Shutdown(actor_id="actor-1")])
    node.on("/machine.MachineService/Shutdown", machine.ShutdownRequest, reply)
    node.on("/machine.MachineService/Events", machine.EventsRequest, [machine.Event(), *events], stream=True)


def test_shutdown_shows_the_progress(talosctl: Client, node: FakeNode) -> None:
    phase = event(machine.PhaseEvent(phase="stopServices", action=machine.PhaseEvent.START))
    serve_shutdown(node, sequence(machine.SequenceEvent.START), phase, sequence(machine.SequenceEvent.STOP))
    result = talosctl("shutdown", "-n", "10.0.0.2", "--force")
    assert result.code == 0, result.err
    assert result.err == (
        "10.0.0.2: waiting for actor ID\n10.0.0.2: actor ID: actor-1\n"
        "10.0.0.2: sequence: shutdown action: START\n10.0.0.2: phase: stopServices action: START\n"
        "10.0.0.2: sequence: shutdown action: STOP\n10.0.0.2: events check condition met\n"
    )
    assert requests(node, "/machine.MachineService/Events")[0].with_actor_id == "actor-1"
    assert requests(node, "/machine.MachineService/Shutdown")[0].force


def test_shutdown_that_fails(talosctl: Client, node: FakeNode) -> None:
    serve_shutdown(node, sequence(machine.SequenceEvent.NOOP, error="disk on fire"))
    result = talosctl("shutdown", "-n", "10.0.0.2")
    assert result.code == 1
    assert "sequence error: disk on fire" in result.err


def test_shutdown_ends_when_the_node_is_unreachable(talosctl: Client, node: FakeNode) -> None:
    async def events(_request: Any, _metadata: Mapping[str, str]):
        yield machine.Event()
        raise GRPCError(Status.UNAVAILABLE, "connection lost")

    serve_shutdown(node)
    node.on("/machine.MachineService/Events", machine.EventsRequest, events, stream=True)
    result = talosctl("shutdown", "-n", "10.0.0.2")
    assert result.code == 0
    assert "10.0.0.2: events check condition met\n" in result.err


def test_reboot_waits_for_another_boot(talosctl: Client, node: FakeNode) -> None:
    boots = iter(["one", "one", "two"])
    node.on(
        "/machine.MachineService/Read",
        machine.ReadRequest,
        lambda _request, _metadata: [Data(bytes=next(boots).encode())],
        stream=True,
    )
    reply = machine.RebootResponse(messages=[machine.Reboot(actor_id="actor-1")])
    node.on("/machine.MachineService/Reboot", machine.RebootRequest, reply)
    node.on(
        "/machine.MachineService/Events",
        machine.EventsRequest,
        [sequence(machine.SequenceEvent.STOP)],
        stream=True,
    )
    result = talosctl("reboot", "-n", "10.0.0.2", "-m", "powercycle", "--debug")
    assert result.code == 0, result.err
    assert '"10.0.0.2": events check condition met\n"10.0.0.2": post check passed\n' in result.err
    assert requests(node, "/machine.MachineService/Reboot")[0].mode == machine.RebootRequest.POWERCYCLE


def test_events_table(talosctl: Client, node: FakeNode) -> None:
    status = machine.MachineStatusEvent(stage=machine.MachineStatusEvent.RUNNING)
    status.status.ready = True
    serve_shutdown(node, sequence(machine.SequenceEvent.START), event(status))
    result = talosctl("events", "-n", "10.0.0.2", "--tail", "-1", "--duration", "1500ms", "--actor-id", "x")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].split() == ["NODE", "ID", "EVENT", "ACTOR", "SOURCE", "MESSAGE"]
    assert lines[1].split() == [
        "10.0.0.2",
        "cid",
        "talos/runtime/machine.SequenceEvent",
        "actor-1",
        "shutdown",
        "START",
    ]
    assert lines[2].split(maxsplit=5)[4:] == ["RUNNING", "ready: true, unmet conditions: []"]
    request = requests(node, "/machine.MachineService/Events")[0]
    assert (request.tail_events, request.tail_seconds, request.with_actor_id) == (-1, 2, "x")


@pytest.mark.parametrize(
    ("since", "after_id", "seconds"),
    [("24h", "", 86400), ("1m30s", "", 90), ("c4q5f3kp7fg00802nf0g", "c4q5f3kp7fg00802nf0g", 0)],
)
def test_events_since(talosctl: Client, node: FakeNode, since: str, after_id: str, seconds: int) -> None:
    node.on("/machine.MachineService/Events", machine.EventsRequest, [], stream=True)
    assert talosctl("events", "-n", "10.0.0.2", "--since", since).code == 0
    request = requests(node, "/machine.MachineService/Events")[0]
    assert (request.tail_id, request.tail_seconds) == (after_id, seconds)


def test_service_list_and_status(talosctl: Client, node: FakeNode) -> None:
    from google.protobuf.empty_pb2 import Empty
    from google.protobuf.timestamp_pb2 import Timestamp

    stamp = Timestamp()
    stamp.FromDatetime(datetime.now(UTC))
    events = machine.ServiceEvents(events=[machine.ServiceEvent(msg="Started", state="Running", ts=stamp)])
    apid = machine.ServiceInfo(
        id="apid", state="Running", events=events, health=machine.ServiceHealth(healthy=True)
    )
    udevd = machine.ServiceInfo(id="udevd", state="Skipped", health=machine.ServiceHealth(unknown=True))
    reply = machine.ServiceListResponse(messages=[machine.ServiceList(services=[apid, udevd])])
    node.on("/machine.MachineService/ServiceList", Empty, reply)
    listing = talosctl("services", "-n", "10.0.0.2")
    assert listing.out.splitlines()[0] == "NODE       SERVICE   STATE     HEALTH   LAST CHANGE   LAST EVENT"
    assert listing.out.splitlines()[1].split()[:4] == ["10.0.0.2", "apid", "Running", "OK"]
    assert listing.out.splitlines()[2].split() == ["10.0.0.2", "udevd", "Skipped", "?"]
    status = talosctl("service", "apid", "-n", "10.0.0.2")
    assert "HEALTH   OK\n" in status.out
    assert "EVENTS   [Running]: Started (" in status.out
    missing = talosctl("service", "none", "-n", "10.0.0.2")
    assert (missing.code, missing.err) == (1, 'error: 10.0.0.2: there is no service "none"\n')


def test_list_names(talosctl: Client, node: FakeNode) -> None:
    files = [machine.FileInfo(name="/etc", relative_name="."), machine.FileInfo(relative_name="hosts")]
    node.on("/machine.MachineService/List", machine.ListRequest, files, stream=True)
    result = talosctl("ls", "/etc", "-n", "10.0.0.2")
    assert result.out == "NODE       NAME\n10.0.0.2   .\n10.0.0.2   hosts\n"


def test_list_long(talosctl: Client, node: FakeNode) -> None:
    info = machine.FileInfo(
        name="/etc",
        relative_name="etc",
        mode=0x80000000 | 0o755,
        size=4096,
        is_dir=True,
        uid=0,
        gid=0,
        modified=1,
        xattrs=[machine.Xattr(name="security.selinux", data=b"system_u:object_r:etc_t:s0\0")],
    )
    link = machine.FileInfo(name="/bin", relative_name="bin", mode=0x8000000 | 0o777, link="usr/bin")
    broken = machine.FileInfo(name="/x", error="permission denied")
    node.on("/machine.MachineService/List", machine.ListRequest, [info, link, broken], stream=True)
    result = talosctl("ls", "-l", "/", "-n", "10.0.0.2")
    assert result.code == 1
    assert result.err == "error: 10.0.0.2: /x: permission denied\n"
    lines = [line.split() for line in result.out.splitlines()]
    assert lines[0] == ["NODE", "MODE", "UID", "GID", "SIZE(B)", "LASTMOD", "LABEL", "NAME"]
    assert lines[1][1] == "drwxr-xr-x"
    assert lines[1][-2:] == ["system_u:object_r:etc_t:s0", "etc"]
    assert lines[2][1] == "Lrwxrwxrwx"
    assert lines[2][-3:] == ["bin", "->", "usr/bin"]


def test_copy(talosctl: Client, node: FakeNode, tmp_path: Path) -> None:
    import io
    import tarfile

    def archive(name: str) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            member = tarfile.TarInfo(name)
            member.size = 2
            tar.addfile(member, io.BytesIO(b"hi"))
        return buffer.getvalue()

    content = archive("a/b")
    chunks = [Data(bytes=content[:10]), Data(bytes=content[10:])]
    node.on("/machine.MachineService/Copy", machine.CopyRequest, chunks, stream=True)
    assert talosctl("copy", "/etc", str(tmp_path / "out"), "-n", "10.0.0.2").code == 0
    assert (tmp_path / "out" / "a" / "b").read_text() == "hi"
    node.on(
        "/machine.MachineService/Copy", machine.CopyRequest, [Data(bytes=archive("../evil"))], stream=True
    )
    result = talosctl("cp", "/etc", str(tmp_path / "out"), "-n", "10.0.0.2")
    assert result.code == 1
    assert "outside" in result.err
    assert not (tmp_path / "evil").exists()


def test_inspect_dependencies(talosctl: Client, node: FakeNode) -> None:
    from google.protobuf.empty_pb2 import Empty

    from talos.api.inspect import inspect_pb2 as inspect

    edges = [
        inspect.ControllerDependencyEdge(
            controller_name="net.Link",
            edge_type=inspect.OUTPUT_EXCLUSIVE,
            resource_namespace="network",
            resource_type="Links.net",
        ),
        inspect.ControllerDependencyEdge(
            controller_name="net.Addr",
            edge_type=inspect.INPUT_WEAK,
            resource_namespace="network",
            resource_type="Links.net",
            resource_id="eth0",
        ),
    ]
    reply = inspect.ControllerRuntimeDependenciesResponse(
        messages=[inspect.ControllerRuntimeDependency(edges=edges)]
    )
    node.on("/inspect.InspectService/ControllerRuntimeDependencies", Empty, reply)
    result = talosctl("inspect", "dependencies", "-n", "10.0.0.2")
    assert result.out.startswith("digraph {")
    assert '"net.Link" -> "Links.net" [style=bold];' in result.out
    assert '"Links.net" -> "net.Addr" [style=dotted, label="eth0"];' in result.out
