"""What the machines of a cluster are given."""

import yaml
from driver.clusters import ADDRESSES, KUBERNETES, MEMBERS, make_address_argument, make_network

from talos.config.generate.config import generate_config, render
from talos.config.generate.options import GenerateOptions
from talos.config.model import MachineType
from talos.config.read.loader import load
from talos.config.secrets.bundle import SecretsBundle
from talos.networkd.cmdline import parse_network
from talos.system.proc.cmdline import parse_cmdline


def test_of_kubernetes_only_what_has_a_name_stays() -> None:
    options = GenerateOptions(
        cluster_name="vm", endpoint="https://10.0.2.15:6443", secrets=SecretsBundle.generate()
    )
    text = render(generate_config(options, MachineType.CONTROL_PLANE), docs=False, examples=False)
    documents = [document for document in yaml.safe_load_all(text) if "kind" in document]
    found = {document["kind"] for document in documents if document["kind"].startswith("Kube")}
    named = {document["kind"] for document in documents if "name" in document}
    assert set(KUBERNETES) == found - named


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
