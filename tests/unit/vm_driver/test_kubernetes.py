"""What the machines of a cluster with Kubernetes are given."""

import yaml
from driver.clusters import ADDRESSES
from driver.kubernetes import (
    MACHINES,
    NODE_PORT,
    PLACES,
    SERVED,
    SLOW_LEASES,
    make_manifest,
)

from talos.config.read.loader import load


def test_machines_have_addresses_of_their_own() -> None:
    addresses = [machine.address for machine in MACHINES.values()]
    assert addresses == [*PLACES.values()]
    assert len({*addresses, *ADDRESSES.values()}) == len(ADDRESSES) + 1
    assert all(NODE_PORT in machine.ports for machine in MACHINES.values())


def test_documents_can_be_read() -> None:
    for text in (*SLOW_LEASES.split("---\n"), make_manifest()):
        assert len(load(text).documents) == 1
    manifest = yaml.safe_load(make_manifest())["manifest"]
    assert [each["kind"] for each in yaml.safe_load_all(manifest)] == [each["kind"] for each in SERVED]
