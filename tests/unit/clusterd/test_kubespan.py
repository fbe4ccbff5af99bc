"""What a node announces for KubeSpan, and what peers it makes of what others announce."""

from base64 import b64encode
from ipaddress import ip_address, ip_network

import pytest

from talos.api.addresses import make_host_prefix, make_ip, make_prefix
from talos.api.common.common_pb2 import NetIPPort
from talos.api.definitions.cluster_pb2 import AffiliateSpec
from talos.api.definitions.kubespan_pb2 import ConfigSpec, IdentitySpec
from talos.clusterd.kubespan import filter_addresses, make_affiliate, make_config, make_peers
from talos.config.read.loader import load
from talos.pki.wireguard import make_private_key, make_public_key

KEYS = [make_public_key(make_private_key()) for _ in range(3)]
ULA = "fd7f:175a:b97c:5602::"
SECRET = b64encode(bytes(32)).decode()
MAIN = f"""\
version: v1alpha1
machine: {{type: worker}}
cluster: {{id: "some", secret: "{SECRET}"}}
"""


def affiliate(number: int, *addresses: str, pods: str = "", exclude: str = "") -> AffiliateSpec:
    spec = AffiliateSpec(
        node_id=f"id-{number}",
        nodename=f"node-{number}",
        addresses=[make_ip(ip_address(text)) for text in addresses],
    )
    spec.kube_span.public_key = KEYS[number]
    spec.kube_span.address.CopyFrom(make_ip(ip_address(f"{ULA}{number + 1}")))
    if pods:
        spec.kube_span.additional_addresses.append(make_prefix(ip_network(pods)))
    if exclude:
        spec.kube_span.exclude_advertised_networks.append(make_prefix(ip_network(exclude)))
    return spec


def allowed(*affiliates: AffiliateSpec) -> tuple[dict[str, list[str]], list[str]]:
    peers, problems = make_peers(affiliates, "id-own")
    return {
        peer.label: [str(ip_network((item.ip, item.prefix_length))) for item in peer.allowed_ips]
        for peer in peers.values()
    }, list(problems)


def test_a_peer_has_its_addresses_and_pods_in_as_few_prefixes_as_possible() -> None:
    found, problems = allowed(affiliate(0, "10.5.0.2", "10.5.0.3", "2001:db8::2", pods="10.244.1.0/24"))
    assert found == {"node-0": ["10.5.0.2/31", "10.244.1.0/24", "2001:db8::2/128", f"{ULA}1/128"]}
    assert problems == []


def test_what_a_peer_excludes_is_not_its_own_but_for_its_address_in_kubespan() -> None:
    found, _ = allowed(affiliate(0, "10.5.0.2", "192.0.2.1", pods="10.244.0.0/23", exclude="10.244.0.0/24"))
    assert found == {"node-0": ["10.5.0.2/32", "10.244.1.0/24", "192.0.2.1/32", f"{ULA}1/128"]}
    found, _ = allowed(affiliate(0, "10.5.0.2", exclude="0.0.0.0/0"))
    assert found == {"node-0": [f"{ULA}1/128"]}
    found, _ = allowed(affiliate(0, "10.5.0.2", exclude="::/0"))
    assert found == {"node-0": ["10.5.0.2/32", f"{ULA}1/128"]}


def test_an_address_that_two_have_is_the_first_ones() -> None:
    found, problems = allowed(affiliate(0, "10.5.0.2", "10.5.0.8"), affiliate(1, pods="10.5.0.0/28"))
    assert found["node-0"] == ["10.5.0.2/32", "10.5.0.8/32", f"{ULA}1/128"]
    free = ["10.5.0.0/31", "10.5.0.3/32", "10.5.0.4/30", "10.5.0.9/32", "10.5.0.10/31", "10.5.0.12/30"]
    assert found["node-1"] == [*free, f"{ULA}2/128"]
    assert problems == ["peer node-1 of KubeSpan overlaps with others, which keep some of its addresses"]


def test_affiliates_without_a_usable_key_are_no_peers() -> None:
    own, copied, damaged = affiliate(0), affiliate(1), affiliate(2)
    own.node_id = "id-own"
    twin = affiliate(1, "10.5.0.9")
    twin.nodename = "twin"
    damaged.kube_span.public_key = "AAAA"
    plain = AffiliateSpec(node_id="plain", nodename="plain")
    found, problems = allowed(own, copied, twin, damaged, plain)
    assert found.keys() == {"node-1"}
    assert problems == [
        "twin is no peer of KubeSpan: another one has its key",
        "node-2 is no peer of KubeSpan: its key or its address is malformed",
    ]


@pytest.mark.parametrize(
    ("filters", "chosen"),
    [
        ([], ["10.5.0.2", "192.0.2.1", "2001:db8::2"]),
        (["0.0.0.0/0"], ["10.5.0.2", "192.0.2.1"]),
        (["0.0.0.0/0", "!10.0.0.0/8", "::/0"], ["192.0.2.1", "2001:db8::2"]),
        (["!10.0.0.0/8"], []),
        (["192.0.2.1", "0.0.0.0/0"], ["192.0.2.1", "10.5.0.2"]),
    ],
)
def test_filters_choose_from_left_to_right(filters: list[str], chosen: list[str]) -> None:
    addresses = [ip_address(text) for text in ("10.5.0.2", "192.0.2.1", "2001:db8::2")]
    assert [str(one) for one in filter_addresses(filters, addresses)] == chosen


def test_a_node_announces_where_it_may_be_reached() -> None:
    texts = (f"{ULA}9", "fd00:0:0:3::1", "10.5.0.2", "192.0.2.1")
    own, link, here, public = (ip_address(text) for text in texts)
    config = ConfigSpec(
        endpoint_filters=["0.0.0.0/0", "::/0"],
        extra_endpoints=[
            NetIPPort(ip=public.packed, port=51820),
            NetIPPort(ip=public.packed, port=7),
        ],
    )
    identity = IdentitySpec(public_key=KEYS[0], address=make_host_prefix(own))
    pods = [make_prefix(ip_network("10.244.1.0/24"))]
    spec = make_affiliate(config, identity, [here, own, link], [public, here], pods)
    assert [(str(ip_address(one.ip)), one.port) for one in spec.endpoints] == [
        ("10.5.0.2", 51820),
        ("192.0.2.1", 51820),
        ("192.0.2.1", 7),
    ]
    assert not spec.additional_addresses
    config.advertise_kubernetes_networks = True
    spec = make_affiliate(config, identity, [here], [], pods)
    assert list(spec.additional_addresses) == pods


def test_the_config_is_that_of_the_document_or_of_the_main_one() -> None:
    off = make_config(load(MAIN))
    assert (off.enabled, off.force_routing, off.mtu, off.cluster_id) == (False, True, 1420, "some")
    document = make_config(
        load(
            MAIN + "---\napiVersion: v1alpha1\nkind: KubeSpanConfig\nenabled: true\nmtu: 1300\n"
            "allowDownPeerBypass: true\n"
            "filters: {endpoints: [0.0.0.0/0], excludeAdvertisedNetworks: [10.9.0.1/16]}\n"
            "---\napiVersion: v1alpha1\nkind: KubeSpanEndpointsConfig\n"
            'extraAnnouncedEndpoints: ["192.0.2.1:7", "[2001:db8::1]:8"]\n'
        )
    )
    assert (document.enabled, document.force_routing, document.mtu) == (True, False, 1300)
    assert list(document.endpoint_filters) == ["0.0.0.0/0"]
    assert list(document.exclude_advertised_networks) == [make_prefix(ip_network("10.9.0.0/16"))]
    assert [(str(ip_address(one.ip)), one.port) for one in document.extra_endpoints] == [
        ("192.0.2.1", 7),
        ("2001:db8::1", 8),
    ]
    legacy = make_config(
        load(MAIN.replace("type: worker", "type: worker, network: {kubespan: {enabled: true, mtu: 1400}}"))
    )
    assert (legacy.enabled, legacy.force_routing, legacy.mtu) == (True, True, 1400)
    assert legacy.shared_secret == SECRET
