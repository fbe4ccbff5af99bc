"""``talosctl get`` and what it prints."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.cosi import meta_pb2 as meta
from talos.api.cosi import resource_pb2 as resource
from talos.api.cosi import state_pb2 as state
from talos.system.errors import UserError
from talos.talosctl.cli.exit import Exit
from talos.talosctl.output import resource as shown
from talos.talosctl.output.jsonpath import Template
from talos.talosctl.output.yaml_text import parse_yaml

LINK = "LinkStatuses.net.talos.dev"


def definition(type_: str, display: str, namespace: str, aliases: list[str], columns: dict[str, str]):
    spec = meta.ResourceDefinitionSpec(
        resource_type=type_,
        display_type=display,
        default_namespace=namespace,
        aliases=aliases,
        all_aliases=[*aliases, display.lower()],
        print_columns=[
            meta.ResourceDefinitionSpec.PrintColumn(name=name, json_path=path)
            for name, path in columns.items()
        ],
    )
    metadata = resource.Metadata(namespace="meta", type="ResourceDefinitions.meta.cosi.dev", id=type_.lower())
    return resource.Resource(metadata=metadata, spec=resource.Spec(proto_spec=spec.SerializeToString()))


DEFINITIONS = [
    definition(
        LINK,
        "LinkStatus",
        "network",
        ["link", "links"],
        {"Oper State": "{.operationalState}", "Kind": "{.kind}"},
    ),
    definition("As.a.dev", "A", "x", ["dup"], {}),
    definition("Bs.b.dev", "B", "x", ["dup"], {}),
]


def link(id_: str, version: str = "1", kind: str = '""'):
    stamp = Timestamp(seconds=1_700_000_000)
    metadata = resource.Metadata(
        namespace="network",
        type=LINK,
        id=id_,
        version=version,
        owner="network.LinkStatusController",
        phase="running",
        created=stamp,
        updated=stamp,
        labels={"b": "2", "a": "1"},
    )
    text = f"index: 1\noperationalState: up\nkind: {kind}\nhardwareAddr: 10:20:30:40:50:59\n"
    text += "list:\n    - a\n    - b\n"
    return resource.Resource(metadata=metadata, spec=resource.Spec(yaml_spec=text))


@pytest.fixture
def resources(talosctl: Client, node: FakeNode):
    async def list_(request: Any, _metadata: Mapping[str, str]):
        rows = (
            DEFINITIONS
            if request.type.startswith("ResourceDefinitions")
            else [link("eth0"), link("lo", "2", "loop")]
        )
        for row in rows:
            yield state.ListResponse(resource=row)

    def get(request: Any, _metadata: Mapping[str, str]):
        if request.id == "none":
            return GRPCError(Status.NOT_FOUND, "resource doesn't exist")
        return state.GetResponse(resource=link(request.id))

    async def watch(_request: Any, _metadata: Mapping[str, str]):
        yield state.WatchResponse()
        yield state.WatchResponse(event=[state.Event(event_type=state.CREATED, resource=link("eth0"))])
        yield state.WatchResponse(event=[state.Event(event_type=state.BOOTSTRAPPED)])
        yield state.WatchResponse(event=[state.Event(event_type=state.DESTROYED, resource=link("eth0", "2"))])

    node.on("/cosi.resource.State/List", state.ListRequest, list_, stream=True)
    node.on("/cosi.resource.State/Get", state.GetRequest, get)
    node.on("/cosi.resource.State/Watch", state.WatchRequest, watch, stream=True)
    return talosctl


def test_table(resources: Client) -> None:
    result = resources("get", "LINKS", "-n", "10.0.0.2")
    assert result.code == 0
    assert result.out == (
        "NODE       NAMESPACE   TYPE         ID     VERSION   OPER STATE   KIND\n"
        "10.0.0.2   network     LinkStatus   eth0   1         up\n"
        "10.0.0.2   network     LinkStatus   lo     2         up           loop\n"
    )


def test_yaml_keeps_the_spec_as_it_is(resources: Client) -> None:
    result = resources("get", "linkstatus", "eth0", "-o", "yaml", "-n", "10.0.0.2")
    assert (
        result.out
        == """\
node: 10.0.0.2
metadata:
    namespace: network
    type: LinkStatuses.net.talos.dev
    id: eth0
    version: 1
    owner: network.LinkStatusController
    phase: running
    created: 2023-11-14T22:13:20Z
    updated: 2023-11-14T22:13:20Z
    labels:
        a: "1"
        b: "2"
spec:
    index: 1
    operationalState: up
    kind: ""
    hardwareAddr: 10:20:30:40:50:59
    list:
        - a
        - b
"""
    )


def test_several_ids_and_json(resources: Client) -> None:
    result = resources("get", LINK, "eth0", "lo", "-o", "json", "-n", "10.0.0.2")
    decoder, text = json.JSONDecoder(), result.out
    found: list[Any] = []
    while text:
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:].lstrip()
    assert [row["metadata"]["id"] for row in found] == ["eth0", "lo"]
    assert found[0]["spec"]["hardwareAddr"] == "10:20:30:40:50:59"


def test_jsonpath(resources: Client) -> None:
    result = resources("get", "links", "-o", "jsonpath={.metadata.id}={.spec.list[*]}", "-n", "10.0.0.2")
    assert result.out == "eth0=a b\nlo=a b\n"


def test_watch(resources: Client) -> None:
    result = resources("get", "links", "--watch", "-n", "10.0.0.2")
    assert [line.split()[:2] for line in result.out.splitlines()] == [
        ["NODE", "*"],
        ["10.0.0.2", "+"],
        ["10.0.0.2", "-"],
    ]


def test_errors(resources: Client) -> None:
    missing = resources("get", "links", "none", "-n", "10.0.0.2")
    assert (missing.code, missing.out, missing.err) == (
        1,
        "NODE   NAMESPACE   TYPE   ID   VERSION\n",
        "error: 10.0.0.2: rpc error: code = NotFound desc = resource doesn't exist\n",
    )
    unknown = resources("get", "nonsense", "-n", "10.0.0.2")
    assert 'resource type "nonsense" is not registered' in unknown.err
    ambiguous = resources("get", "dup", "-n", "10.0.0.2")
    assert 'resource type "dup" is ambiguous: As.a.dev, Bs.b.dev' in ambiguous.err
    output = resources("get", "links", "-o", "xml")
    assert output.code == Exit.USAGE
    assert '"xml" is no output format' in output.err


DATA = {
    "a": {"b": [1, 2, 3]},
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "X", "status": "no"}],
    "flag": True,
    "pair": {"version": 1, "id": "x"},
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{.a.b}", "[\n    1,\n    2,\n    3\n]"),
        ("{.pair}", '{\n    "id": "x",\n    "version": 1\n}'),
        ("{.a.b[*]}", "1 2 3"),
        ("{.a.b[-1]}", "3"),
        ("{.a.b[0:2]}", "1 2"),
        ("{.a.b[:]}", "1 2 3"),
        ("{.a.b[::-2]}", "3 1"),
        (f"{{.a.b[?(@=={'[' * 9000})]}}", ""),
        ('{.conditions[?(@.type=="Ready")].status}', "True"),
        ("{.conditions[?(@.type!='Ready')].status}", "no"),
        ("{.missing.path}", ""),
        ("{.flag}", "true"),
        ("{..status}", "True no"),
        ("{['a'].b[0]}", "1"),
        ("{$.a.b[1]}", "2"),
        ('{range .conditions[*]}{.type}{"\\n"}{end}', "Ready\nX\n"),
        ("x{.flag}y", "xtruey"),
        ("{.a.b[?(@>1)]}", "2 3"),
    ],
)
def test_jsonpath_dialect(template: str, expected: str) -> None:
    assert Template(template).render(DATA) == expected


def test_jsonpath_that_finds_too_much() -> None:
    nested: dict[str, object] = {}
    for _ in range(60):
        nested = {"a": nested}
    assert len(Template("{..a..a}").values(nested)) == 60 * 59 / 2
    with pytest.raises(UserError, match="finds more than"):
        Template("{..a..a..a..a..a..a}").values(nested)


def test_jsonpath_of_a_scalar() -> None:
    assert Template("{@}").values("text") == ["text"]


@pytest.mark.parametrize(
    "template",
    [
        "{.a",
        "{.a[}",
        "{range .a}",
        "{end}",
        "{.a[::0]}",
        "{.a[-:1]}",
        f"{{.a[{'9' * 5000}]}}",
        "{range .a}" * 1000 + "{end}" * 1000,
        "{range .a}{.b}" * 100_000,
    ],
)
def test_bad_jsonpath(template: str) -> None:
    with pytest.raises(UserError):
        Template(template)


def test_yaml_is_read_as_go_does() -> None:
    assert parse_yaml("a: no\nb: 10:20\nc: 2020-01-01\nd: true\ne: 0x1f\nf: 1.5\ng:\nh: 012\n") == {
        "a": "no",
        "b": "10:20",
        "c": "2020-01-01",
        "d": True,
        "e": 31,
        "f": 1.5,
        "g": None,
        "h": 10,
    }


def test_what_all_nodes_have_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def parse(text: str) -> object:
        parsed.append(text)
        return parse_yaml(text)

    monkeypatch.setattr(shown, "parse_yaml", parse)
    members = definition("Members.test.dev", "Member", "test", [], {"Hostname": "{.hostname}"})
    spec = meta.ResourceDefinitionSpec.FromString(members.spec.proto_spec)
    rows = [
        shown.table_row(node, resource.Resource(spec=resource.Spec(yaml_spec=f"hostname: {name}\n")), spec)
        for node in ("n1", "n2", "n3")
        for name in ("once-a", "once-b")
    ]
    assert parsed == ["hostname: once-a\n", "hostname: once-b\n"]
    assert [(row[0], row[-1]) for row in rows] == [
        (node, name) for node in ("n1", "n2", "n3") for name in ("once-a", "once-b")
    ]
