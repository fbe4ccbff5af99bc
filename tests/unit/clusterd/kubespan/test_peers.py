"""Which peers a node makes of what others announce, valid or hostile."""

from collections.abc import Sequence
from ipaddress import IPv6Network, ip_address, ip_network

from talos.api.addresses import make_ip, make_prefix
from talos.api.common.common_pb2 import NetIPPort
from talos.api.definitions.cluster_pb2 import AffiliateSpec
from talos.clusterd.kubespan.peers import MAX_PREFIXES, Own, Session, make_peers
from talos.pki.wireguard import make_private_key, make_public_key

KEYS = [make_public_key(make_private_key()) for _ in range(3)]
ULA = "fd7f:175a:b97c:5602::"
OWN = Own(
    node_id="id-own",
    public_key=make_public_key(make_private_key()),
    subnet=IPv6Network(f"{ULA}/64"),
    addresses=frozenset(map(ip_address, ("10.7.0.1", "2001:db8:7::1", f"{ULA}ff"))),
    networks=[make_prefix(ip_network("10.244.7.0/24"))],
)


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


def session(*allowed_ips: str, seen_at: str = "") -> Session:
    return Session(
        allowed_ips=[make_prefix(ip_network(text)) for text in allowed_ips],
        address=ip_address(seen_at).packed if seen_at else b"",
    )


def allowed(
    *affiliates: AffiliateSpec, sessions: Sequence[Session] = ()
) -> tuple[dict[str, list[str]], list[str]]:
    """``sessions`` are of the first affiliates."""
    peers, problems = make_peers(affiliates, OWN, dict(zip(KEYS, sessions, strict=False)))
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


def test_a_peer_can_have_neither_this_nodes_key_nor_an_address_of_another_cluster() -> None:
    copy, stranger, zero = affiliate(0, "10.5.0.2"), affiliate(1, "10.5.0.3"), affiliate(2)
    copy.kube_span.public_key = OWN.public_key
    stranger.kube_span.address.CopyFrom(make_ip(ip_address("192.0.2.7")))
    zero.kube_span.public_key = "A" * 43 + "="
    found, problems = allowed(copy, stranger, zero)
    assert found == {}
    assert problems == [
        "node-0 is no peer of KubeSpan: it has this node's key, such as a copied disk: reset one of the two",
        f"node-1 is no peer of KubeSpan: its address is not in {ULA}/64",
        "node-2 is no peer of KubeSpan: its key or its address is malformed",
    ]


def test_this_nodes_addresses_and_pods_stay_its_own() -> None:
    found, problems = allowed(affiliate(0, "10.7.0.1", "10.5.0.2", f"{ULA}ff", pods="10.244.6.0/23"))
    assert found == {"node-0": ["10.5.0.2/32", "10.244.6.0/24", f"{ULA}1/128"]}
    assert problems == ["peer node-0 of KubeSpan overlaps with others, which keep some of its addresses"]


def test_networks_that_would_cut_the_node_off_are_left_out() -> None:
    for network in (
        "0.0.0.0/0",
        "128.0.0.0/1",
        "::/0",
        "10.7.0.0/16",
        "2001:db8:7::/48",
        "fd7f::/16",
        "9.0.0.0/15",
        "2001:db9::/47",
    ):
        found, problems = allowed(affiliate(0, "10.5.0.2", pods=network))
        assert found == {"node-0": ["10.5.0.2/32", f"{ULA}1/128"]}
        [problem] = problems
        assert problem == (
            f"peer node-0 of KubeSpan announces the network {network}, which is too large or has addresses "
            "of this node: it is left out"
        )


def test_a_peers_address_in_kubespan_is_no_others() -> None:
    liar, honest = affiliate(0, f"{ULA}2", f"{ULA}3"), affiliate(1, "10.5.0.3")
    found, _ = allowed(liar, honest)
    assert found == {"node-0": [f"{ULA}1/128"], "node-1": ["10.5.0.3/32", f"{ULA}2/128"]}


def test_an_address_within_anothers_network_of_pods_stays_with_its_node() -> None:
    liar, honest = affiliate(0, pods="10.5.0.0/30"), affiliate(1, "10.5.0.2", pods="10.5.0.0/31")
    found, problems = allowed(liar, honest)
    assert found["node-1"] == ["10.5.0.2/32", f"{ULA}2/128"]
    assert found["node-0"] == ["10.5.0.0/31", "10.5.0.3/32", f"{ULA}1/128"]
    assert len(problems) == 2


def test_of_two_with_one_key_it_is_who_was_seen_first_whatever_its_id() -> None:
    honest, liar = affiliate(1, "10.5.0.2"), affiliate(1)
    liar.node_id, liar.nodename = "id-0", "liar"
    assert allowed(honest, liar)[0] == {"node-1": ["10.5.0.2/32", f"{ULA}2/128"]}


def test_a_peer_with_a_session_keeps_what_it_has() -> None:
    honest = affiliate(1, "10.5.0.2", "2001:db8::2", pods="10.244.1.0/24")
    liar = affiliate(0, "10.5.0.2", "10.5.0.9", "2001:db8::2", pods="10.244.0.0/23")
    liar.kube_span.address.CopyFrom(honest.kube_span.address)
    had = ["10.5.0.2/32", "10.244.1.0/24", "2001:db8::2/128", f"{ULA}2/128"]
    found, problems = allowed(liar, honest, sessions=[session(), session(*had)])
    assert found == {"node-0": ["10.5.0.9/32", "10.244.0.0/24"], "node-1": had}
    assert problems == ["peer node-0 of KubeSpan overlaps with others, which keep some of its addresses"]
    found, _ = allowed(liar, honest)
    assert found["node-1"] == [], "without a session it is whose id comes first"


def test_a_peer_that_sends_from_an_address_has_it_before_who_had_it() -> None:
    honest, liar = affiliate(1, "10.5.0.2"), affiliate(0, "10.5.0.2")
    held = session("10.5.0.2/32", f"{ULA}1/128", seen_at="192.0.2.9")
    found, _ = allowed(liar, honest, sessions=[held, session(f"{ULA}2/128", seen_at="10.5.0.2")])
    assert found == {"node-0": [f"{ULA}1/128"], "node-1": ["10.5.0.2/32", f"{ULA}2/128"]}


def test_what_a_peer_has_had_as_pods_is_no_address_of_its() -> None:
    old, new = affiliate(0, pods="10.244.0.0/24"), affiliate(1, "10.244.0.9")
    found, _ = allowed(old, new, sessions=[session("10.244.0.0/24", f"{ULA}1/128")])
    assert "10.244.0.9/32" in found["node-1"]


def test_a_network_that_others_cut_into_many_parts_is_left_out() -> None:
    liar, honest = affiliate(0, pods="9.0.0.0/16"), affiliate(1)
    for number in range(64):
        honest.addresses.append(make_ip(ip_address(f"9.0.{number * 4 + 1}.85")))
    found, problems = allowed(liar, honest)
    assert found["node-0"] == [f"{ULA}1/128"]
    assert len(found["node-1"]) == 65 < MAX_PREFIXES
    assert problems == ["peer node-0 of KubeSpan overlaps with others, which keep some of its addresses"]


def test_endpoints_that_lead_to_this_node_or_through_a_tunnel_are_left_out() -> None:
    spec = affiliate(0)
    for text in ("10.7.0.1", f"{ULA}1", "fd00:0:0:3::1", "192.0.2.1"):
        spec.kube_span.endpoints.append(NetIPPort(ip=ip_address(text).packed, port=51820))
    peers, problems = make_peers([spec], OWN)
    assert [str(ip_address(one.ip)) for one in peers[KEYS[0]].endpoints] == ["192.0.2.1"]
    assert problems == []
