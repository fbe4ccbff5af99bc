"""``talosctl upgrade`` of several nodes: what is printed, and the exit code."""

import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import override

import pytest
import yaml
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from talos.api.cosi.resource_pb2 import Resource
from talos.api.cosi.state_pb2 import ListRequest, ListResponse
from talos.api.definitions.enums_pb2 import RuntimeMachineStage
from talos.api.machine import image_pb2, lifecycle_pb2, machine_pb2
from talos.fleet import calls
from talos.fleet.progress import FleetProgress, NodeProgress, NodeStep
from talos.resource import kinds
from talos.talosctl.cli.exit import Exit
from talos.talosctl.output.fleet import begin, following
from talos.upgrade.state import IDLE, Upgrade, bless, format_state, revert, stage, start

from .conftest import Client
from .fake import FakeNode

STAGED = stage(IDLE, running="A", version="v1.15.1", previous_version="v1.15.0")
TRIAL = start(STAGED, running="B", cause="")
GOOD, BAD = "10.0.0.2", "10.0.0.3"
ARGV = ("upgrade", "--image", "registry.test/installer:v1.15.1")


class Workers:
    """Two workers behind one port, of which one never keeps a new system."""

    def __init__(self, node: FakeNode) -> None:
        self.states: dict[str, Upgrade] = {}
        self.pulls: list[str] = []
        node.on("/machine.MachineService/Version", Empty, self._version)
        node.on("/machine.MachineService/ServiceList", Empty, machine_pb2.ServiceListResponse())
        node.on("/machine.MachineService/Reboot", machine_pb2.RebootRequest, self._reboot)
        node.on("/machine.ImageService/Pull", image_pb2.ImageServicePullRequest, self._pull, stream=True)
        request = lifecycle_pb2.LifecycleServiceUpgradeRequest
        node.on("/machine.LifecycleService/Upgrade", request, self._install, stream=True)
        node.on("/cosi.resource.State/List", ListRequest, self._list, stream=True)

    def _version(self, request: object, metadata: Mapping[str, str]) -> machine_pb2.VersionResponse:
        del request
        is_new = self.states.get(metadata["node"], IDLE).phase.value == "blessed"
        info = machine_pb2.VersionInfo(tag="v1.15.1" if is_new else "v1.15.0", arch="amd64")
        return machine_pb2.VersionResponse(messages=[machine_pb2.Version(version=info)])

    def _pull(
        self, request: image_pb2.ImageServicePullRequest, metadata: Mapping[str, str]
    ) -> Sequence[Message]:
        self.pulls.append(metadata["node"])
        return [image_pb2.ImageServicePullResponse(name=request.image_ref)]

    def _install(self, request: object, metadata: Mapping[str, str]) -> Sequence[Message]:
        del request
        self.states[metadata["node"]] = STAGED
        progress = lifecycle_pb2.LifecycleServiceInstallProgress
        lines = (progress(message="writing slot B\n"), progress(exit_code=0))
        return [lifecycle_pb2.LifecycleServiceUpgradeResponse(progress=line) for line in lines]

    def _reboot(self, request: object, metadata: Mapping[str, str]) -> machine_pb2.RebootResponse:
        del request
        is_bad = metadata["node"] == BAD
        self.states[metadata["node"]] = revert(TRIAL, "no network") if is_bad else bless(TRIAL)
        return machine_pb2.RebootResponse()

    def _list(self, request: ListRequest, metadata: Mapping[str, str]) -> Sequence[Message]:
        state = self.states.get(metadata["node"], IDLE)
        specs: dict[str, Message] = {
            kinds.META_LOAD.type: kinds.META_LOAD.spec(done=True),
            kinds.META_KEY.type: kinds.META_KEY.spec(value=format_state(state).decode()),
            kinds.HOSTNAME_STATUS.type: kinds.HOSTNAME_STATUS.spec(hostname=f"worker-{metadata['node'][-1]}"),
            kinds.MACHINE_STATUS.type: kinds.MACHINE_STATUS.spec(
                stage=RuntimeMachineStage.MACHINE_STAGE_RUNNING
            ),
        }
        if request.type not in specs:
            return []
        resource = Resource()
        resource.metadata.id = "0x40"
        resource.metadata.created.seconds = 1 if state.phase.value in {"idle", "staged"} else 2
        resource.spec.proto_spec = specs[request.type].SerializeToString()
        return [ListResponse(resource=resource)]


@pytest.fixture
def workers(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> Workers:
    monkeypatch.setattr(calls, "POLL_INTERVAL", 0.02)
    return Workers(node)


def test_lines_while_it_runs_and_a_table_at_last(talosctl: Client, workers: Workers) -> None:
    result = talosctl(*ARGV, "-n", GOOD, "-o", "table")
    assert result.code == 0, result.err
    assert workers.pulls == [GOOD]
    for line in ("pulling", "installing: writing slot B", "rebooting", "done"):
        assert f"{GOOD}: {line}\n" in result.err
    header, row = result.out.splitlines()
    assert header.split() == [
        *("NODE", "HOSTNAME", "ROLE", "BEFORE", "AFTER", "RESULT", "TIME", "DOWNTIME", "REASON")
    ]
    assert row.split()[:6] == [GOOD, "worker-2", "worker", "v1.15.0", "v1.15.1", "done"]


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_failure_is_a_document_and_an_exit_code(talosctl: Client, workers: Workers, form: str) -> None:
    result = talosctl(*ARGV, "-n", f"{BAD},{GOOD}", "-o", form)
    assert result.code == 1
    assert workers.pulls == [BAD]
    document = json.loads(result.out) if form == "json" else yaml.safe_load(result.out)
    first, second = document["nodes"]
    assert document["succeeded"] is False
    assert (first["node"], first["result"], first["after"]) == (BAD, "failed", "v1.15.0")
    assert first["reason"] == "v1.15.1 was reverted, v1.15.0 runs: no network"
    assert (second["node"], second["result"]) == (GOOD, "not started")
    assert f"error: stopped: {BAD} (worker-3): v1.15.1 was reverted" in result.err


def test_a_plan_is_carried_out_once(talosctl: Client, workers: Workers, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    planned = talosctl("plan", *ARGV[1:], "-n", GOOD, "-o", "json")
    assert (planned.code, workers.pulls) == (Exit.CHANGES, []), planned.err
    path.write_text(planned.out)
    result = talosctl("apply", "--plan", str(path))
    assert (result.code, workers.pulls) == (0, [GOOD]), result.err
    assert "v1.15.0   v1.15.1   done" in result.out
    again = talosctl("apply", "--plan", str(path))
    assert (again.code, workers.pulls) == (Exit.REFUSED, [GOOD])
    assert "has another version since the plan was made" in again.err


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("-n", GOOD, "--max-unavailable", "none"), "'none' is no number of nodes"),
        (("-n", GOOD, "--parallel", "0"), "--parallel: has to be 1 or more"),
        (("-n", GOOD, "--parallel", "2", "--no-reboot"), "--parallel: need a reboot that is waited for"),
        (("-n", f"{GOOD},{GOOD}"), f"{GOOD} is named twice"),
    ],
)
def test_mistakes_change_nothing(talosctl: Client, workers: Workers, argv: Sequence[str], text: str) -> None:
    result = talosctl(*ARGV, *argv)
    assert result.code == Exit.USAGE
    assert text in result.err
    assert "Traceback" not in result.err
    assert workers.pulls == []


class Terminal(io.StringIO):
    @override
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("no_color", [False, True])
def test_colours_of_the_live_rows(monkeypatch: pytest.MonkeyPatch, no_color: bool) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    row = NodeProgress(node="10.0.0.2", hostname="cp-1", is_control_plane=True, before="v1")
    row.step = NodeStep.FAILED
    with following(is_plain=False) as watcher:
        begin(watcher, FleetProgress(image="", version="", rows=[row], watcher=watcher))
    assert "cp-1" in screen.getvalue()
    assert ("\x1b[31m" in screen.getvalue()) is not no_color
