"""Lists of subnets with exceptions, as all settings that have one read and check them."""

from ipaddress import ip_address

import pytest

from talos.clusterd.controllers.etcd_config import make_config, make_spec
from talos.config.check.validate import Mode, validate
from talos.config.documents.v1alpha1.etcd import EtcdConfig
from talos.config.effective import cluster as effective
from talos.config.read.loader import load
from talos.config.subnet_list import parse_entry, split_entries
from talos.kubed.controllers.node import choose_addresses, make_node_ip_config

ADDRESSES = [ip_address(text) for text in ("10.0.0.5", "10.0.0.11", "192.168.0.3", "fd00::3")]
MAIN = """\
version: v1alpha1
machine: {type: controlplane, kubelet: {nodeIP: {validSubnets: [NETWORKS]}}}
cluster:
  network: {podSubnets: [10.244.0.0/16], serviceSubnets: [10.96.0.0/12]}
  etcd: {subnet: "", advertisedSubnets: [NETWORKS]}
"""
VIP = "---\napiVersion: v1alpha1\nkind: Layer2VIPConfig\nname: 10.0.0.5\nlink: eth0\n"
NODE = "---\napiVersion: v1alpha1\nkind: KubeNodeConfig\nnodeIP: {validSubnets: [NETWORKS]}\n"
KUBESPAN = "---\napiVersion: v1alpha1\nkind: KubeSpanConfig\nfilters: {endpoints: [NETWORKS]}\n"


@pytest.mark.parametrize("text", ["10.0.0.0/8", "10.1.2.3", "10.1.2.3/8", "fd00::/8", "::1"])
def test_prefixes_and_addresses_are_entries(text: str) -> None:
    network, is_exception = parse_entry(text)
    assert not is_exception
    assert parse_entry(f"!{text}") == (network, True)
    assert split_entries([text, f"!{text}"]) == ([text], [text])


@pytest.mark.parametrize(
    "text", ["", "!", "!!10.0.0.0/8", "10.0.0.300", "10.0.0.0/255.0.0.0", "10.0.0.0/", "fe80::1%eth0", "7"]
)
def test_anything_else_is_refused_with_one_text(text: str) -> None:
    config = load(f"{MAIN}{NODE}{KUBESPAN}".replace("NETWORKS", f'10.0.0.0/8, "{text}"'), source="c")
    found = [str(problem) for problem in validate(config, Mode.CONTAINER).errors]
    wrong = f'[1]: "{text}" is no subnet (such as 10.0.0.0/8, or !10.1.0.0/16 to leave it out)'
    assert [line.partition(": ")[2].removesuffix(wrong) for line in found if line.endswith(wrong)] == [
        "machine.kubelet.nodeIP.validSubnets",
        "cluster.etcd.advertisedSubnets",
        "KubeNodeConfig nodeIP.validSubnets",
        "KubeSpanConfig filters.endpoints",
    ]


@pytest.mark.parametrize(
    ("networks", "chosen"),
    [
        ("", ["10.0.0.11"]),
        ("10.0.0.0/8", ["10.0.0.11"]),
        ('"!10.0.0.0/8"', ["192.168.0.3"]),
        ('192.168.0.0/16, fd00::/8, "!fd00::3"', ["192.168.0.3"]),
        ("0.0.0.0/0, fd00::/8", ["10.0.0.11", "fd00::3"]),
    ],
)
def test_a_node_is_known_by_an_address_of_its_own(networks: str, chosen: list[str]) -> None:
    spec = make_node_ip_config(load(f"{MAIN}{VIP}".replace("NETWORKS", networks)))
    found = choose_addresses(ADDRESSES, spec.valid_subnets, spec.exclude_subnets, ["10.96.0.0/12"])
    assert [str(address) for address in found] == chosen


@pytest.mark.parametrize(
    ("services", "chosen"),
    [
        ("10.96.0.0/12, fd00:96::/112", ["10.0.0.5", "fd00::3"]),
        ("fd00:96::/112, 10.96.0.0/12", ["fd00::3", "10.0.0.5"]),
        ("fd00:96::/112", ["fd00::3", "10.0.0.5"]),
    ],
)
def test_a_nodes_first_address_is_of_the_first_family_of_services(services: str, chosen: list[str]) -> None:
    config = load(MAIN.replace("NETWORKS", "").replace("10.96.0.0/12", services))
    spec = make_node_ip_config(config)
    found = choose_addresses(
        ADDRESSES, spec.valid_subnets, spec.exclude_subnets, effective.service_subnets(config)
    )
    assert [str(address) for address in found] == chosen


@pytest.mark.parametrize(
    ("networks", "advertised"),
    [
        ((), ["10.0.0.11"]),
        (("10.0.0.0/8",), ["10.0.0.11"]),
        (("!10.0.0.0/8",), ["192.168.0.3", "fd00::3"]),
        (("0.0.0.0/0", "!192.168.0.0/16"), ["10.0.0.11"]),
    ],
)
def test_etcd_advertises_what_the_list_leaves(networks: tuple[str, ...], advertised: list[str]) -> None:
    config = make_config(EtcdConfig(advertised_subnets=networks), ["10.0.0.5"])
    spec = make_spec(config, "a", ADDRESSES, ADDRESSES)
    assert spec is not None
    assert [str(ip_address(address.ip)) for address in spec.advertised_addresses] == advertised


def test_etcd_listens_where_the_api_server_connects() -> None:
    config = make_config(EtcdConfig(advertised_subnets=("10.0.0.0/24",)), ())
    for addresses, loopback in ((ADDRESSES, ["127.0.0.1", "::1"]), (ADDRESSES[:2], ["127.0.0.1"])):
        spec = make_spec(config, "a", addresses, addresses)
        assert spec is not None
        found = [str(ip_address(address.ip)) for address in spec.listen_client_addresses]
        assert found == [*loopback, "10.0.0.5", "10.0.0.11"]
