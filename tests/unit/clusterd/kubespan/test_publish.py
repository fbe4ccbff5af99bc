"""What a node announces for KubeSpan."""

from base64 import b64encode
from ipaddress import ip_address, ip_network

import pytest

from talos.api.addresses import make_host_prefix, make_prefix
from talos.api.common.common_pb2 import NetIPPort
from talos.api.definitions.kubespan_pb2 import ConfigSpec, IdentitySpec
from talos.clusterd.kubespan.publish import filter_addresses, make_affiliate, make_config
from talos.config.read.loader import load
from talos.pki.wireguard import make_private_key, make_public_key

KEY = make_public_key(make_private_key())
ULA = "fd7f:175a:b97c:5602::"
SECRET = b64encode(bytes(32)).decode()
MAIN = f"""\
version: v1alpha1
machine: {{type: worker}}
cluster: {{id: "some", secret: "{SECRET}"}}
"""


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
    identity = IdentitySpec(public_key=KEY, address=make_host_prefix(own))
    pods = [make_prefix(ip_network("10.244.1.0/24"))]
    tunnelled = ip_address(f"{ULA}a")
    spec = make_affiliate(config, identity, [here, own, link], [public, here, tunnelled], pods)
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
