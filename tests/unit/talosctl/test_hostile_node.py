"""What a node chooses, or a pod on it, does nothing to the terminal that shows it."""

import sys

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.common.common_pb2 import Data
from talos.api.cosi.resource_pb2 import Metadata, Resource
from talos.api.cosi.state_pb2 import ListRequest, ListResponse
from talos.api.machine import machine_pb2 as machine
from talos.client.events import describe_event
from talos.talosctl.cli.complete import complete
from talos.talosctl.client.probes import format_time as format_round_trip
from talos.talosctl.output import console
from talos.talosctl.output.units import format_age, format_moment, format_time
from talos.talosctl.tree import ROOT

MACHINE = "/machine.MachineService/"
TITLE = "\x1b]0;owned\x07"
"""A sequence that sets a terminal's title; others write its clipboard, or answer as if keys were pressed."""


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


def test_tables_have_no_controls(talosctl: Client, node: FakeNode) -> None:
    names = (TITLE, "a\rb\tc", "\x9b2J", "\u202egpj")
    files = [machine.FileInfo(relative_name=name) for name in names]
    node.on(MACHINE + "List", machine.ListRequest, files, stream=True)
    result = talosctl("ls", "-n", "10.0.0.2", "/x")
    assert [line.split(None, 1)[1] for line in result.out.splitlines()[1:]] == [
        "^[]0;owned^G",
        "a^Mb c",
        "<U+009B>2J",
        "<U+202E>gpj",
    ]


@pytest.mark.parametrize("seconds", [1 << 40, -(1 << 62)])
def test_times_of_no_calendar_are_numbers(talosctl: Client, node: FakeNode, seconds: int) -> None:
    files = [machine.FileInfo(relative_name="x", modified=seconds)]
    node.on(MACHINE + "List", machine.ListRequest, files, stream=True)
    result = talosctl("ls", "-l", "-n", "10.0.0.2", "/x")
    assert (result.code, f"@{seconds}" in result.out) == (0, True)
    assert format_round_trip(Duration(seconds=seconds)).endswith("s")
    moment = Timestamp(seconds=seconds)
    assert {format_age(moment), format_time(moment), format_moment(moment)} == {f"@{seconds}"}


def test_specs_that_are_none_are_one_line(talosctl: Client, node: FakeNode) -> None:
    row = Resource(metadata=Metadata(type="ResourceDefinitions.meta.cosi.dev", id="x"))
    row.spec.proto_spec = b"\xff"
    node.on("/cosi.resource.State/List", ListRequest, [ListResponse(resource=row)], stream=True)
    result = talosctl("get", "-n", "10.0.0.2", "members")
    assert result.code == 1
    assert "the spec of the node's ResourceDefinitions.meta.cosi.dev x is no " in result.err
    assert len(result.err.splitlines()) == 1


def test_an_event_that_is_none_has_no_message() -> None:
    event = machine.Event()
    event.data.type_url, event.data.value = "talos/runtime/machine.SequenceEvent", b"\xff"
    assert describe_event(event) == (event.data.type_url, "", "")


def test_errors_have_no_controls(talosctl: Client, node: FakeNode) -> None:
    node.on(MACHINE + "List", machine.ListRequest, GRPCError(Status.NOT_FOUND, f"no {TITLE}"), stream=True)
    result = talosctl("ls", "-n", "10.0.0.2", "/x")
    assert "no ^[]0;owned^G" in result.err
    assert "\x1b" not in result.err


def test_logs_on_a_terminal_have_colours_only(
    talosctl: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = b"\x1b[1;31mred\x1b[0m \x1b[2J\x1b]52;c;eA==\x07\r\nover\rwritten \xff\xc2\x9b\n"
    node.on(MACHINE + "Logs", machine.LogsRequest, [Data(bytes=log[:8]), Data(bytes=log[8:])], stream=True)
    assert talosctl("logs", "-n", "10.0.0.2", "x").out.encode(errors="replace").count(b"\x1b") == 4, (
        "what is no terminal gets all"
    )
    on_terminal(monkeypatch)
    assert talosctl("logs", "-n", "10.0.0.2", "x").out == (
        "10.0.0.2: \x1b[1;31mred\x1b[0m ^[[2J^[]52;c;eA==^G\x1b[m\n10.0.0.2: over^Mwritten \ufffd<U+009B>\n"
    )


def test_files_on_a_terminal_are_text(
    talosctl: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [Data(bytes=b"\xc3"), Data(bytes=b"\xa4\x1b[2J\n")]
    node.on(MACHINE + "Read", machine.ReadRequest, chunks, stream=True)
    assert talosctl("read", "-n", "10.0.0.2", "/x").out == "ä\x1b[2J\n"
    on_terminal(monkeypatch)
    assert talosctl("read", "-n", "10.0.0.2", "/x").out == "ä^[[2J\n"


def test_documents_are_changed_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    console.write(f"a: |\n  {TITLE}\n")
    assert capsys.readouterr().out == f"a: |\n  {TITLE}\n"
    on_terminal(monkeypatch)
    console.write(f"a: |\n  {TITLE}\n")
    assert capsys.readouterr().out == "a: |\n  ^[]0;owned^G\n"


@pytest.mark.usefixtures("talosctl")
def test_no_offer_makes_a_shell_run_something(talosctl: Client, node: FakeNode) -> None:
    names = ("$(id)", "`id`", "a;id", "a b", "a\nb", "-x", "*", "ä", "v1.2:x@y")
    files = [machine.FileInfo(relative_name=name) for name in names]
    node.on(MACHINE + "List", machine.ListRequest, files, stream=True)
    found = complete(ROOT, ["--talosconfig", str(talosctl.path), "ls", "-n", "10.0.0.2", "/"])
    assert [offer for offer, _ in found.offers] == ["/-x", "/v1.2:x@y", "/ä"]
