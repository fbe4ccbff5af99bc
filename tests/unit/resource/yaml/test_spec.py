"""Specs as YAML: the keys and texts people see."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
import yaml
from google._upb._message import Descriptor as _Descriptor
from google._upb._message import FieldDescriptor as _FieldDescriptor
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from talos.api.common.common_pb2 import (
    URL,
    NetIP,
    NetIPPort,
    NetIPPrefix,
    PEMEncodedCertificate,
    PEMEncodedCertificateAndKey,
)
from talos.api.cosi import resource_pb2
from talos.api.definitions import (
    block_pb2,
    cluster_pb2,
    enums_pb2,
    k8s_pb2,
    kubespan_pb2,
    network_pb2,
    secrets_pb2,
)
from talos.api.google.api.expr.v1alpha1.checked_pb2 import CheckedExpr
from talos.api.google.api.expr.v1alpha1.syntax_pb2 import Constant, Expr
from talos.api.resource.config_pb2 import MachineConfigSpec, MachineTypeSpec
from talos.api.tables import read_table
from talos.resource import ids, kinds
from talos.resource.kind import Kind
from talos.resource.objects import to_struct
from talos.resource.resource import make_resource
from talos.resource.yaml.enums import enum_texts
from talos.resource.yaml.plan import message_to_value
from talos.resource.yaml.spec import resource_from_proto, resource_to_proto, spec_to_yaml
from talos.resource.yaml.text import Value, to_yaml
from talos.resource.yaml.values import (
    MESSAGE_CONVERTERS,
    duration_to_text,
    ip_port_to_text,
    ip_to_text,
    timestamp_to_text,
)
from talos.system.errors import UserError

V4 = bytes([10, 5, 0, 2])
V6 = bytes.fromhex("fe80000000000000" + "0042acfffe110002")


def show(kind: Kind[Message], spec: Message) -> object:
    return yaml.safe_load(spec_to_yaml(kind, spec))


def test_address_status() -> None:
    spec = network_pb2.AddressStatusSpec(
        address=NetIPPrefix(ip=V4, prefix_length=24),
        local=NetIP(ip=V4),
        link_index=4,
        link_name="eth0",
        family=enums_pb2.FAMILY_INET4,
        scope=enums_pb2.SCOPE_GLOBAL,
        flags=0x80 | 0x200,
        priority=5,
    )
    assert spec_to_yaml(kinds.ADDRESS_STATUS, spec) == (
        "address: 10.5.0.2/24\n"
        "local: 10.5.0.2\n"
        "linkIndex: 4\n"
        "linkName: eth0\n"
        "family: inet4\n"
        "scope: global\n"
        "flags: permanent,noprefixroute\n"
        "priority: 5\n"
    )


def test_link_status_has_hardware_addresses_and_flags() -> None:
    spec = network_pb2.LinkStatusSpec(hardware_addr=bytes.fromhex("0242ac110002"), flags=0x11043)
    shown = show(kinds.LINK_STATUS, spec)
    assert isinstance(shown, Mapping)
    assert shown["hardwareAddr"] == "02:42:ac:11:00:02"
    assert shown["flags"] == "UP,BROADCAST,RUNNING,MULTICAST,LOWER_UP"


def test_inlined_message_gives_its_keys_to_the_parent() -> None:
    spec = network_pb2.LinkSpecSpec(bond_slave=network_pb2.BondSlave(master_name="bond0"))
    shown = show(kinds.LINK_SPEC, spec)
    assert isinstance(shown, Mapping)
    assert shown["masterName"] == "bond0"
    assert "masterName" not in str(show(kinds.LINK_SPEC, network_pb2.LinkSpecSpec()))


def test_certificates_are_base64_and_absent_ones_null() -> None:
    spec = secrets_pb2.OSRootSpec(
        issuing_ca=PEMEncodedCertificateAndKey(crt=b"crt", key=b"key"),
        accepted_c_as=[PEMEncodedCertificate(crt=b"crt")],
        cert_sani_ps=[NetIP(ip=V4)],
    )
    shown = show(kinds.OS_ROOT_SECRET, spec)
    assert isinstance(shown, Mapping)
    assert shown["issuingCA"] == {"crt": "Y3J0", "key": "a2V5"}
    assert shown["acceptedCAs"] == [{"crt": "Y3J0"}]
    assert shown["certSANIPs"] == ["10.5.0.2"]
    empty = show(kinds.OS_ROOT_SECRET, secrets_pb2.OSRootSpec())
    assert isinstance(empty, Mapping)
    assert (empty["issuingCA"], empty["certSANIPs"]) == (None, [])


def test_free_form_specs() -> None:
    pod = Struct()
    pod.update({"kind": "Pod", "spec": {"hostNetwork": True, "ports": [6443], "none": None, "cpu": 0.5}})
    assert show(kinds.STATIC_POD, k8s_pb2.StaticPodSpec(pod=pod)) == {
        "kind": "Pod",
        "spec": {"hostNetwork": True, "ports": [6443], "none": None, "cpu": 0.5},
    }


def test_times_and_endpoints() -> None:
    spec = kubespan_pb2.PeerStatusSpec(
        endpoint=NetIPPort(ip=V6, port=51820),
        last_handshake_time=Timestamp(seconds=1_700_000_000, nanos=500_000_000),
        state=enums_pb2.PEER_STATE_UP,
    )
    shown = yaml.load(spec_to_yaml(kinds.KUBE_SPAN_PEER_STATUS, spec), Loader=yaml.BaseLoader)
    assert shown["endpoint"] == "[fe80::42:acff:fe11:2]:51820"
    assert shown["lastHandshakeTime"] == "2023-11-14T22:13:20.5Z"
    assert shown["lastEndpointChange"] == "0001-01-01T00:00:00Z"
    assert shown["state"] == "up"


def test_machine_type_is_a_bare_text() -> None:
    assert spec_to_yaml(kinds.MACHINE_TYPE, MachineTypeSpec(machine_type=2)) == "controlplane\n"  # pyright: ignore[reportArgumentType]


def test_machine_config_is_one_string_with_an_annotation() -> None:
    text = "version: v1alpha1\nmachine:\n    type: worker # why\n---\napiVersion: v1alpha1\n"
    resource = make_resource(*ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text.encode()))
    stored = resource.with_metadata(replace(resource.metadata, version=1))
    proto = resource_to_proto(kinds.MACHINE_CONFIG, stored)
    assert proto.metadata.annotations["talos.dev/yaml-spec"] == "1"
    assert yaml.safe_load(proto.spec.yaml_spec) == text
    back = resource_from_proto(kinds.MACHINE_CONFIG, proto)
    assert back.spec == resource.spec
    assert back.metadata.annotations == {}


@pytest.mark.parametrize("kind", kinds.REGISTRY.values(), ids=kinds.REGISTRY.keys())
def test_every_kind_has_the_keys_of_the_table(kind: Kind[Message]) -> None:
    spec = kind.spec()
    loaded = yaml.safe_load(spec_to_yaml(kind, spec))
    yaml.safe_load(spec_to_yaml(kind, filled(spec)))
    name = spec.DESCRIPTOR.full_name
    if not name.startswith("talos.resource.definitions.") or isinstance(loaded, list):
        return
    rows = [row for row in read_table("yaml_keys.tsv") if row["message"] == name]
    assert {row["proto_field"] for row in rows} == {field.name for field in spec.DESCRIPTOR.fields}
    always = {row["yaml_key"] for row in rows if "omitempty" not in row["yaml_options"] and row["yaml_key"]}
    assert set(loaded) == always
    shown = message_to_value(filled(spec))
    named = {row["yaml_key"] for row in rows if row["yaml_key"]}
    assert named <= set(shown)


def filled(message: Message, depth: int = 0) -> Message:
    """A message of which every field is set, a few levels deep."""
    if isinstance(message, Struct):
        message.update({"key": "value"})
        return message
    if depth > 4 or isinstance(message, CheckedExpr):
        if isinstance(message, CheckedExpr):
            message.expr.ident_expr.name = "disk"
        return message
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            value = field.message_type.fields_by_name["value"]
            target = getattr(message, field.name)
            if value.message_type is not None:
                filled(target["key"], depth + 1)
            else:
                target["key"] = sample(value)
        elif field.message_type is not None:
            target = getattr(message, field.name)
            filled(target.add() if field.is_repeated else target, depth + 1)
        elif field.is_repeated:
            getattr(message, field.name).append(sample(field))
        else:
            setattr(message, field.name, sample(field))
    return message


def sample(field: _FieldDescriptor | FieldDescriptor) -> object:
    if field.enum_type is not None:
        return field.enum_type.values[-1].number or 1
    if field.type == FieldDescriptor.TYPE_BYTES:
        return b"text"
    if field.type == FieldDescriptor.TYPE_STRING:
        return "text: with #"
    return field.type == FieldDescriptor.TYPE_BOOL or 1


def test_every_enum_in_a_spec_has_texts() -> None:
    seen: set[str] = set()

    def walk(descriptor: _Descriptor | Descriptor) -> Iterator[str]:
        if descriptor.full_name in seen or descriptor.full_name in MESSAGE_CONVERTERS:
            return
        seen.add(descriptor.full_name)
        for field in descriptor.fields:
            if field.enum_type is not None:
                yield field.enum_type.full_name
            if field.message_type is not None:
                yield from walk(field.message_type)

    enums = {name for kind in kinds.REGISTRY.values() for name in walk(kind.spec.DESCRIPTOR)}
    assert len(enums) > 20
    for name in enums:
        assert enum_texts(name)


@pytest.mark.parametrize(
    ("seconds", "nanos", "text"),
    [
        (0, 0, "0s"),
        (0, 1, "1ns"),
        (0, 1_500, "1.5µs"),
        (0, 150_000_000, "150ms"),
        (1, 500_000_000, "1.5s"),
        (60, 0, "1m0s"),
        (5400, 0, "1h30m0s"),
        (86_400, 5, "24h0m0.000000005s"),
        (-1, -500_000_000, "-1.5s"),
    ],
)
def test_durations_are_written_as_in_go(seconds: int, nanos: int, text: str) -> None:
    assert duration_to_text(Duration(seconds=seconds, nanos=nanos)) == text


def test_addresses() -> None:
    assert ip_to_text(b"") == ""
    assert ip_to_text(V4) == "10.5.0.2"
    assert ip_to_text(V6 + b"eth0") == "fe80::42:acff:fe11:2%eth0"
    assert ip_port_to_text(NetIPPort()) == ""
    assert ip_port_to_text(NetIPPort(ip=V4, port=53)) == "10.5.0.2:53"
    assert timestamp_to_text(Timestamp()) == "0001-01-01T00:00:00Z"


def call(function: str, *arguments: Expr) -> Expr:
    return Expr(call_expr=Expr.Call(function=function, args=arguments))


def name(text: str) -> Expr:
    operand, _, field = text.rpartition(".")
    if not operand:
        return Expr(ident_expr=Expr.Ident(name=text))
    return Expr(select_expr=Expr.Select(operand=name(operand), field=field))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (
            call(
                "_&&_",
                call("_>_", name("disk.size"), Expr(const_expr=Constant(uint64_value=10))),
                call("!_", name("disk.rotational")),
            ),
            "disk.size > 10u && !disk.rotational",
        ),
        (
            call("_&&_", call("_||_", name("a"), name("b")), name("c")),
            "(a || b) && c",
        ),
        (call("_-_", name("a"), call("_-_", name("b"), name("c"))), "a - (b - c)"),
        (call("_==_", name("a"), Expr(const_expr=Constant(string_value='x"y'))), 'a == "x\\"y"'),
        (
            Expr(call_expr=Expr.Call(function="matches", target=name("a.b"), args=[name("c")])),
            "a.b.matches(c)",
        ),
        (
            call("@in", name("a"), Expr(list_expr=Expr.CreateList(elements=[name("b"), name("c")]))),
            "a in [b, c]",
        ),
        (call("_[_]", name("a"), Expr(const_expr=Constant(int64_value=0))), "a[0]"),
        (call("_?_:_", name("a"), name("b"), name("c")), "a ? b : c"),
    ],
)
def test_expressions_are_shown_as_text(expression: Expr, text: str) -> None:
    spec = block_pb2.DiskSelector(match=CheckedExpr(expr=expression))
    assert message_to_value(spec)["match"] == text


@pytest.mark.parametrize(
    "value",
    [
        "", "a", "true", "No", "null", "~", "1", "1.5", "0x1f", "1e3", "2020-01-01", "12:30:45", ".inf",
        "- a", "a: b", "a #b", "#a", "a:", " a", "a ", "@a", "%a", "[a]", "{a}", "*a", "&a", "!a", "|", ">",
        "'a'", '"a"', "a\nb", "a\nb\n", "a\n\nb\n", "a\n\n", "\na", " a\nb", "a \nb", "a\tb", "\x00\x1f\x7f",
        "é", "😀", "😀\x07", "\x85", "\u2028", "\ufeffx", "\xa0", "fd00::1", "fe80::", "::1", "=", "<<",
        "10.5.0.2", "10.5.0.2/24", "02:42:ac:11:00:02", "a,b", "---", "...", "a\r\nb", "?", "-", "0o17",
        "k8s.gcr.io/pause:3.5", "/dev/sda1", "1_000", "+1", "a\n b\n  c\n", "#!/bin\nx\n", "- a\n- b\n",
    ],
)  # fmt: skip
def test_every_text_survives(value: str) -> None:
    for document in (value, [value], {"key": value}, {value: "x"}, {"a": [{"b": value}, [value]]}):
        assert yaml.safe_load(to_yaml(document)) == document


def test_layout_is_upstreams() -> None:
    value: Value = {
        "a": {"b": [1, 2], "c": [], "d": {}},
        "list": [{"x": 1, "z": [{"z": None}]}, "text"],
        "block": "one\n\ntwo\n",
        "number": 2.0,
        "fraction": 0.5,
    }
    assert to_yaml(value) == (
        "a:\n    b:\n        - 1\n        - 2\n    c: []\n    d: {}\n"
        "list:\n    - x: 1\n      z:\n        - z: null\n    - text\n"
        "block: |\n    one\n\n    two\nnumber: 2\nfraction: 0.5\n"
    )


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (resource_pb2.Resource(), 'the type is ""'),
        (
            resource_pb2.Resource(
                metadata=resource_pb2.Metadata(type=kinds.ADDRESS_STATUS.type),
                spec=resource_pb2.Spec(proto_spec=b"\xff"),
            ),
            "no valid resource",
        ),
        (
            resource_pb2.Resource(
                metadata=resource_pb2.Metadata(type=kinds.ADDRESS_STATUS.type, version="x")
            ),
            "no valid resource",
        ),
        (
            resource_pb2.Resource(metadata=resource_pb2.Metadata(type=kinds.ADDRESS_STATUS.type, phase="x")),
            "no valid resource",
        ),
    ],
)
def test_nonsense_from_the_wire(message: resource_pb2.Resource, text: str) -> None:
    with pytest.raises(UserError, match=text):
        resource_from_proto(kinds.ADDRESS_STATUS, message)


def test_yaml_only_spec_must_be_a_mapping() -> None:
    message = resource_pb2.Resource(metadata=resource_pb2.Metadata(type=kinds.DNS_UPSTREAM.type))
    for text in (
        "- a",
        "{",
        "text",
        "a: {1: 2}",
        "a: 2026-01-01",
        "a: &a [*a]",
        "a: &a [1]\nb: [*a, *a]",
        "[" * 3000,
    ):
        message.spec.yaml_spec = text
        with pytest.raises(UserError):
            resource_from_proto(kinds.DNS_UPSTREAM, message)


def test_urls() -> None:
    spec = secrets_pb2.KubeletSpec(endpoint=URL(full_path="https://10.5.0.1:6443"))
    shown = show(kinds.KUBELET_SECRET, spec)
    assert isinstance(shown, Mapping)
    assert shown["endpoint"] == "https://10.5.0.1:6443"


def test_manifests_are_a_list_and_bytes_are_numbers() -> None:
    item = k8s_pb2.SingleManifest(object=to_struct({"kind": "Secret"}))
    assert spec_to_yaml(kinds.MANIFEST, k8s_pb2.ManifestSpec(items=[item])) == "- kind: Secret\n"
    text = spec_to_yaml(kinds.DISCOVERY_CONFIG, cluster_pb2.ConfigSpec(service_encryption_key=b"\x00\xff"))
    assert "serviceEncryptionKey:\n    - 0\n    - 255\n" in text
    assert "serviceEncryptionKey: []\n" in spec_to_yaml(kinds.DISCOVERY_CONFIG, cluster_pb2.ConfigSpec())
