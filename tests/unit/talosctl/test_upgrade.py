"""``talosctl upgrade`` from the image to the verdict, with a node that answers as a trial does."""

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from talos.api.common.common_pb2 import LOCKED, Data, Error
from talos.api.cosi.resource_pb2 import Resource
from talos.api.cosi.state_pb2 import ListRequest, ListResponse
from talos.api.definitions.runtime_pb2 import MetaKeySpec
from talos.api.machine import image_pb2, lifecycle_pb2, machine_pb2
from talos.talosctl.cli.exit import Exit
from talos.talosctl.client import node_upgrade, track
from talos.talosctl.commands import upgrade
from talos.upgrade.state import BUSY, IDLE, Upgrade, bless, format_state, revert, stage, start

from .conftest import Client
from .fake import FakeNode

STAGED = stage(IDLE, running="A", version="v1.15.1", previous_version="v1.15.0")
TRIAL = start(STAGED, running="B", cause="")


def serve(node: FakeNode, states: Sequence[Upgrade], *, code: int = 0) -> None:
    """A node whose installer ends with ``code``, and whose META then holds these states in turn."""
    boots: Iterator[str] = iter(["one", *["two"] * 99])
    left = list(states)

    def list_resources(request: ListRequest, metadata: object) -> list[ListResponse]:
        del metadata
        if request.type == "MetaLoads.runtime.talos.dev":
            return [ListResponse(resource=Resource())]
        state = left.pop(0) if len(left) > 1 else left[0]
        resource = Resource()
        resource.metadata.id = "0x40"
        resource.spec.proto_spec = MetaKeySpec(value=format_state(state).decode()).SerializeToString()
        return [ListResponse(resource=resource)]

    progress = lifecycle_pb2.LifecycleServiceInstallProgress
    lines = [progress(message="writing slot B\n"), progress(exit_code=code)]
    node.on(
        "/machine.ImageService/Pull",
        image_pb2.ImageServicePullRequest,
        [image_pb2.ImageServicePullResponse(name="full/name:v1.15.1")],
        stream=True,
    )
    node.on(
        "/machine.LifecycleService/Upgrade",
        lifecycle_pb2.LifecycleServiceUpgradeRequest,
        [lifecycle_pb2.LifecycleServiceUpgradeResponse(progress=line) for line in lines],
        stream=True,
    )
    node.on(
        "/machine.MachineService/Read",
        machine_pb2.ReadRequest,
        lambda _request, _metadata: [Data(bytes=next(boots).encode())],
        stream=True,
    )
    reply = machine_pb2.RebootResponse(messages=[machine_pb2.Reboot(actor_id="actor-1")])
    node.on("/machine.MachineService/Reboot", machine_pb2.RebootRequest, reply)
    node.on("/machine.MachineService/Events", machine_pb2.EventsRequest, [], stream=True)
    node.on("/cosi.resource.State/List", ListRequest, list_resources, stream=True)
    version = machine_pb2.Version(version=machine_pb2.VersionInfo(tag="v1.15.0"))
    node.on("/machine.MachineService/Version", Empty, machine_pb2.VersionResponse(messages=[version]))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_upgrade, "POLL_INTERVAL", 0.05)


ARGV = ("upgrade", "-n", "10.0.0.2", "--image", "name:v1.15.1")


def test_it_waits_until_the_new_system_is_the_default(talosctl: Client, node: FakeNode) -> None:
    serve(node, [STAGED, TRIAL, TRIAL, bless(TRIAL)])
    result = talosctl(*ARGV)
    assert result.code == 0, result.err
    assert "10.0.0.2: writing slot B\n" in result.err
    assert result.err.count("v1.15.1 in slot B: trial") == 1
    assert result.err.endswith("10.0.0.2: v1.15.1 is the default from now on\n")
    request = next(seen for path, _, seen in node.seen if path.endswith("LifecycleService/Upgrade"))
    assert request.source.image_name == "full/name:v1.15.1"


def test_a_reverted_upgrade_is_a_failure_with_its_reason(talosctl: Client, node: FakeNode) -> None:
    serve(node, [TRIAL, revert(TRIAL, "self-check: after 300 s: the network is not ready")])
    result = talosctl(*ARGV)
    assert result.code == 1
    text = (
        "the upgrade to v1.15.1 was reverted, v1.15.0 runs: self-check: after 300 s: the network is not ready"
    )
    assert text in result.err


def test_a_refused_release_ends_before_the_reboot(talosctl: Client, node: FakeNode) -> None:
    serve(node, [IDLE], code=2)
    result = talosctl(*ARGV)
    assert result.code == 1
    assert "the installer ended with exit code 2" in result.err
    assert not [path for path, _, _ in node.seen if path.endswith("Reboot")]


def test_without_reboot_or_wait_there_is_no_verdict(talosctl: Client, node: FakeNode) -> None:
    serve(node, [IDLE])
    for flag in ("--no-reboot", "--wait=false"):
        result = talosctl(*ARGV, flag)
        assert result.code == 0, result.err
        assert "default from now on" not in result.err


def test_an_older_call_that_installed_nothing_is_a_failure(talosctl: Client, node: FakeNode) -> None:
    """Its failure is an event of a node that goes down, which not every client sees."""
    serve(node, [IDLE])
    reply = machine_pb2.UpgradeResponse(messages=[machine_pb2.Upgrade(actor_id="actor-1")])
    node.on("/machine.MachineService/Upgrade", machine_pb2.UpgradeRequest, reply)
    result = talosctl(*ARGV, "--legacy")
    assert result.code == 1
    assert "it came back with v1.15.0, as before: nothing was installed" in result.err


BUSY_CALL = GRPCError(Status.FAILED_PRECONDITION, BUSY)


@pytest.mark.parametrize(
    ("boots", "answers"),
    [
        (["one", "two"], []),
        (["one", "one"], [machine_pb2.UpgradeResponse(messages=[machine_pb2.Upgrade(actor_id="actor-2")])]),
        (["one", "one", "one", "two"], [BUSY_CALL, BUSY_CALL]),
    ],
    ids=["heard", "not heard", "heard and still at work"],
)
def test_a_lost_answer_of_the_older_call_ends_nothing(
    talosctl: Client,
    node: FakeNode,
    monkeypatch: pytest.MonkeyPatch,
    boots: list[str],
    answers: list[Message | GRPCError],
) -> None:
    monkeypatch.setattr(track, "LOST_ANSWER_TIMEOUT", 0.05)
    serve(node, [TRIAL, bless(TRIAL)])
    left, ids = [GRPCError(Status.UNAVAILABLE, "closed"), *answers], iter([*boots, *["two"] * 99])
    read = "/machine.MachineService/Read"
    node.on(
        read,
        machine_pb2.ReadRequest,
        lambda _request, _metadata: [Data(bytes=next(ids).encode())],
        stream=True,
    )
    node.on(
        "/machine.MachineService/Upgrade", machine_pb2.UpgradeRequest, lambda _request, _metadata: left.pop(0)
    )
    result = talosctl(*ARGV, "--legacy")
    assert result.code == 0, result.err
    assert left == []
    assert "no answer: closed" in result.err
    assert result.err.endswith("10.0.0.2: v1.15.1 is the default from now on\n")


def test_a_second_call_that_is_refused_is_a_failure(
    talosctl: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(track, "LOST_ANSWER_TIMEOUT", 0.05)
    serve(node, [IDLE])
    refusal = GRPCError(Status.INVALID_ARGUMENT, "is not signed")
    left = [GRPCError(Status.UNAVAILABLE, "closed"), refusal]
    read = "/machine.MachineService/Read"
    node.on(read, machine_pb2.ReadRequest, [Data(bytes=b"one")], stream=True)
    node.on(
        "/machine.MachineService/Upgrade", machine_pb2.UpgradeRequest, lambda _request, _metadata: left.pop(0)
    )
    result = talosctl(*ARGV, "--legacy")
    assert (result.code, left) == (Exit.REFUSED, [])
    assert "is not signed" in result.err


def test_a_reboot_whose_answer_was_lost_is_in_its_own_way(
    talosctl: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(track, "LOST_ANSWER_TIMEOUT", 0.05)
    serve(node, [IDLE])
    reply = machine_pb2.RebootResponse(messages=[machine_pb2.Reboot(actor_id="actor-2")])
    left, ids = [GRPCError(Status.UNAVAILABLE, "closed"), reply], iter(["one", "one", *["two"] * 99])
    read = "/machine.MachineService/Read"
    node.on(
        read,
        machine_pb2.ReadRequest,
        lambda _request, _metadata: [Data(bytes=next(ids).encode())],
        stream=True,
    )
    node.on(
        "/machine.MachineService/Reboot", machine_pb2.RebootRequest, lambda _request, _metadata: left.pop(0)
    )
    error = Error(code=LOCKED, message="sequence not started: locked, reboot is running")
    locked = machine_pb2.SequenceEvent(sequence="reboot", action=machine_pb2.SequenceEvent.NOOP, error=error)
    event = machine_pb2.Event()
    event.data.type_url = "talos/runtime/machine.SequenceEvent"
    event.data.value = locked.SerializeToString()
    node.on("/machine.MachineService/Events", machine_pb2.EventsRequest, [event], stream=True)
    result = talosctl("reboot", "-n", "10.0.0.2")
    assert (result.code, left) == (0, []), result.err
    left[:] = [reply]
    result = talosctl("reboot", "-n", "10.0.0.2")
    assert result.code == 1
    assert "sequence error: sequence not started: locked, reboot is running" in result.err


@pytest.mark.parametrize("flag", ["--wait", "--stage"])
def test_a_release_comes_from_a_file(talosctl: Client, node: FakeNode, tmp_path: Path, flag: str) -> None:
    serve(node, [IDLE, bless(TRIAL)])
    name = image_pb2.ImageServiceImportResponse(name="name/of:archive")
    node.on("/machine.ImageService/Import", image_pb2.ImageServiceImportRequest, name, uploads=True)
    reply = machine_pb2.UpgradeResponse(messages=[machine_pb2.Upgrade(actor_id="actor-1")])
    node.on("/machine.MachineService/Upgrade", machine_pb2.UpgradeRequest, reply)
    archive = tmp_path / "release.tar"
    archive.write_bytes(b"tar" * 300_000)
    result = talosctl("upgrade", "-n", "10.0.0.2", "--image", str(archive), flag)
    assert result.code == 0, result.err
    sent = [seen for path, _, seen in node.seen if path.endswith("Import")]
    assert b"".join(part.image_chunk.bytes for part in sent) == archive.read_bytes()
    request = next(seen for path, _, seen in node.seen if path.endswith("/Upgrade"))
    assert "name/of:archive" in str(request)
    assert getattr(request, "stage", False) == (flag == "--stage")
    missing = talosctl("upgrade", "-n", "10.0.0.2", "--image", "./gone.tar", flag)
    assert (missing.code, missing.err) == (Exit.USAGE, "error: --image: there is no file ./gone.tar\n")
    several = talosctl("upgrade", "-n", "10.0.0.2,10.0.0.3", "--image", str(archive))
    assert "--image: is a file, which is sent to one node only" in several.err


@pytest.fixture
def interrupted() -> Iterator[None]:
    """Interrupts are not ignored, as they are by what a shell runs in its background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupted")
@pytest.mark.parametrize(
    ("method", "request_type", "text"),
    [
        (
            "/machine.LifecycleService/Upgrade",
            lifecycle_pb2.LifecycleServiceUpgradeRequest,
            f"10.0.0.2: interrupted: {upgrade.BEFORE_REBOOT}\n",
        ),
        (
            "/machine.MachineService/Events",
            machine_pb2.EventsRequest,
            "10.0.0.2: interrupted: it goes on by itself\n",
        ),
    ],
)
def test_an_interrupt_shows_how_it_leaves_the_node(
    talosctl: Client, node: FakeNode, method: str, request_type: type[Message], text: str
) -> None:
    serve(node, [STAGED])
    is_over = threading.Event()

    def interrupt(*_: object) -> list[Message]:
        os.kill(os.getpid(), signal.SIGINT)
        is_over.wait(60)
        return []

    node.on(method, request_type, interrupt, stream=True)
    try:
        result = talosctl(*ARGV)
    finally:
        is_over.set()
    assert result.code == 130
    assert result.err.endswith(text)
