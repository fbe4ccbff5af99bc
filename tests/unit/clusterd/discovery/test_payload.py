"""What a node publishes about itself, what is taken of another's, and what two sources have of one node."""

from ipaddress import ip_address

import pytest

from talos.api.common.common_pb2 import NetIP, NetIPPort, NetIPPrefix
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.cluster_pb2 import AffiliateSpec
from talos.api.discovery.affiliate_pb2 import Affiliate, Endpoint, IPPrefix, KubeSpan
from talos.clusterd.discovery.payload import is_node_id, make_payload, merge_affiliate, parse_payload


def packed(text: str) -> bytes:
    return ip_address(text).packed


def make_spec(machine_type: enums.MachineType = enums.TYPE_CONTROL_PLANE) -> AffiliateSpec:
    spec = AffiliateSpec(
        node_id="one",
        hostname="node-1.example.org",
        nodename="node-1",
        operating_system="Talos (v1.15.0)",
        machine_type=machine_type,
        addresses=[NetIP(ip=packed("192.0.2.1")), NetIP(ip=packed("fd00::1"))],
    )
    spec.control_plane.api_server_port = 6443
    spec.kube_span.public_key = "key"
    spec.kube_span.address.ip = packed("fd00::2")
    spec.kube_span.additional_addresses.append(make_prefix("10.244.0.0", 24))
    spec.kube_span.exclude_advertised_networks.append(make_prefix("198.51.100.0", 24))
    spec.kube_span.endpoints.append(NetIPPort(ip=packed("192.0.2.1"), port=51820))
    return spec


def make_prefix(text: str, bits: int) -> NetIPPrefix:
    return NetIPPrefix(ip=packed(text), prefix_length=bits)


@pytest.mark.parametrize(
    ("machine_type", "name"),
    [
        (enums.TYPE_INIT, "init"),
        (enums.TYPE_CONTROL_PLANE, "controlplane"),
        (enums.TYPE_WORKER, "worker"),
        (enums.TYPE_UNKNOWN, "unknown"),
    ],
)
def test_an_affiliate_comes_back_as_it_was_published(machine_type: enums.MachineType, name: str) -> None:
    spec = make_spec(machine_type)
    payload, endpoints = make_payload(spec)
    assert payload.machine_type == name
    assert parse_payload(payload, endpoints) == spec


def test_a_node_that_joins_is_a_worker() -> None:
    assert parse_payload(Affiliate(machine_type="join"), []).machine_type == enums.TYPE_WORKER


def test_a_worker_without_kubespan_publishes_neither_port_nor_endpoints() -> None:
    spec = make_spec(enums.TYPE_WORKER)
    spec.ClearField("control_plane")
    spec.kube_span.public_key = ""
    payload, endpoints = make_payload(spec)
    assert (payload.HasField("control_plane"), payload.HasField("kubespan"), endpoints) == (False, False, [])
    spec.ClearField("kube_span")
    assert parse_payload(payload, endpoints) == spec


def test_what_is_out_of_bounds_is_left_out() -> None:
    payload = Affiliate(
        node_id="one",
        hostname="\x1b[31mred",
        nodename="a/b",
        machine_type="root",
        operating_system="x" * 129,
        kubespan=KubeSpan(public_key="\n", address=b"short"),
    )
    expected = AffiliateSpec(node_id="one")
    expected.kube_span.address.SetInParent()
    assert parse_payload(payload, []) == expected


@pytest.mark.parametrize(
    ("name", "is_taken"),
    [("a" * 253, True), ("a" * 254, False), ("Node-1.example.org", True), ("-a", False), ("a.", False)],
)
def test_a_name_has_the_letters_and_the_length_of_a_hosts(name: str, *, is_taken: bool) -> None:
    spec = parse_payload(Affiliate(hostname=name, nodename=name), [])
    assert (spec.hostname, spec.nodename) == ((name, name) if is_taken else ("", ""))


@pytest.mark.parametrize(
    ("text", "is_id"), [("x", True), ("!~" * 128, True), ("x" * 257, False), ("", False), ("a b", False)]
)
def test_an_id_has_visible_letters(text: str, *, is_id: bool) -> None:
    assert is_node_id(text) is is_id


@pytest.mark.parametrize(("port", "is_taken"), [(0, False), (1, True), (65535, True), (65536, False)])
def test_a_port_is_a_number_of_tcp(port: int, *, is_taken: bool) -> None:
    payload = Affiliate(kubespan=KubeSpan(public_key="key"))
    payload.control_plane.api_server_port = port
    spec = parse_payload(payload, [Endpoint(ip=packed("192.0.2.1"), port=port)])
    assert spec.control_plane.api_server_port == port * is_taken
    assert spec.HasField("control_plane") is is_taken
    assert [one.port for one in spec.kube_span.endpoints] == [port] * is_taken


@pytest.mark.parametrize(
    ("ip", "is_taken"),
    [
        (packed("192.0.2.1"), True),
        (packed("fd00::1"), True),
        *[(packed(text), False) for text in ("0.0.0.0", "127.0.0.1", "224.0.0.1", "::", "::1", "ff02::1")],
        *[(bytes([10] * size), False) for size in (0, 3, 5, 15, 17)],
    ],
)
def test_an_address_is_one_that_another_node_can_have(ip: bytes, *, is_taken: bool) -> None:
    payload = Affiliate(addresses=[ip], kubespan=KubeSpan(public_key="key", address=ip))
    payload.kubespan.additional_addresses.add(ip=ip, bits=0)
    spec = parse_payload(payload, [Endpoint(ip=ip, port=1)])
    kubespan = spec.kube_span
    assert kubespan.address.ip == ip * is_taken
    for found in (spec.addresses, kubespan.additional_addresses, kubespan.endpoints):
        assert [one.ip for one in found] == [ip] * is_taken


@pytest.mark.parametrize(
    ("prefix", "is_taken"),
    [
        (IPPrefix(ip=packed("0.0.0.0"), bits=0), True),
        (IPPrefix(ip=packed("10.0.0.1"), bits=32), True),
        (IPPrefix(ip=packed("10.0.0.1"), bits=33), False),
        (IPPrefix(ip=packed("fd00::1"), bits=128), True),
        (IPPrefix(ip=packed("fd00::1"), bits=129), False),
        (IPPrefix(ip=bytes(5), bits=24), False),
    ],
)
def test_a_prefix_is_no_longer_than_its_address(prefix: IPPrefix, *, is_taken: bool) -> None:
    payload = Affiliate(kubespan=KubeSpan(public_key="key", exclude_advertised_addresses=[prefix]))
    found = parse_payload(payload, []).kube_span.exclude_advertised_networks
    assert list(found) == [NetIPPrefix(ip=prefix.ip, prefix_length=prefix.bits)] * is_taken


def test_64_addresses_of_each_kind_are_taken_of_one_source_or_two() -> None:
    def parse(*numbers: int) -> AffiliateSpec:
        ips = [packed(f"192.0.2.{number}") for number in numbers]
        prefixes = [IPPrefix(ip=ip, bits=32) for ip in ips]
        kubespan = KubeSpan(
            public_key="key", additional_addresses=prefixes, exclude_advertised_addresses=prefixes
        )
        unusable = [bytes(4)] * 64
        payload = Affiliate(addresses=[*unusable, *ips], kubespan=kubespan)
        return parse_payload(payload, [Endpoint(ip=ip, port=1) for ip in ips])

    merged = parse(*range(60))
    merge_affiliate(merged, parse(*range(50, 100)))
    assert merged == parse(*range(64))
    assert parse(*range(65)) == merged


def test_what_a_source_lacks_is_taken_from_another() -> None:
    spec = AffiliateSpec(node_id="one")
    merge_affiliate(spec, make_spec())
    assert spec == make_spec()
    merge_affiliate(spec, AffiliateSpec(node_id="one"))
    assert spec == make_spec()
    lacking = AffiliateSpec(node_id="one")
    merge_affiliate(lacking, AffiliateSpec(node_id="one"))
    assert lacking == AffiliateSpec(node_id="one"), "neither has a control plane or KubeSpan"


def test_what_a_source_has_stays() -> None:
    other = make_spec(enums.TYPE_WORKER)
    other.hostname = other.nodename = other.operating_system = "other"
    other.control_plane.api_server_port = 443
    spec = make_spec()
    merge_affiliate(spec, other)
    assert spec == make_spec()


@pytest.mark.parametrize("key", ["key", "another key"])
def test_addresses_of_both_sources_are_of_one_key(key: str) -> None:
    other = AffiliateSpec(node_id="one", addresses=[NetIP(ip=packed("192.0.2.2"))])
    other.kube_span.public_key = key
    other.kube_span.address.ip = packed("fd00::3")
    other.kube_span.additional_addresses.append(make_prefix("10.244.1.0", 24))
    other.kube_span.exclude_advertised_networks.append(make_prefix("203.0.113.0", 24))
    other.kube_span.endpoints.append(NetIPPort(ip=packed("198.51.100.1"), port=51820))
    spec, expected = make_spec(), make_spec()
    merge_affiliate(spec, other)
    expected.addresses.extend(other.addresses)
    if key == expected.kube_span.public_key:
        expected.kube_span.additional_addresses.extend(other.kube_span.additional_addresses)
        expected.kube_span.exclude_advertised_networks.extend(other.kube_span.exclude_advertised_networks)
        expected.kube_span.endpoints.extend(other.kube_span.endpoints)
    assert spec == expected
