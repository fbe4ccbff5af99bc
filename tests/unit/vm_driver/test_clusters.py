"""What the machines of a cluster are given."""

import yaml
from driver.clusters import ADDRESSES, MEMBERS, make_address_argument, make_network

from talos.config.read.loader import load
from talos.networkd.cmdline import parse_network
from talos.system.proc.cmdline import parse_cmdline


def test_each_has_a_name_and_an_address_of_its_own() -> None:
    for name, address in ADDRESSES.items():
        assert MEMBERS[name].address == address
        documents = list(yaml.safe_load_all(make_network(name)))
        assert documents[0]["hostname"] == name
        assert documents[2]["addresses"] == [{"address": f"{address}/24"}]
        network = parse_network(parse_cmdline(make_address_argument(name)), "enp0s5")
        assert not network.problems
        assert [link.name for link in network.config.links] == ["enp0s5"]
        load(make_network(name))
