"""From chosen to a request."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from talos.provision.cluster import Disk, Provider, Role
from talos.provision.plan import ClusterOptions, make_request, parse_disks, parse_flag_size
from talos.system.errors import UserError

IMAGE = Path("/image.squashfs")


def make_options(**changes: Any) -> ClusterOptions:
    return replace(ClusterOptions(image=IMAGE), **changes)


def test_nodes_are_named_and_addressed_in_order() -> None:
    request = make_request(make_options(controlplanes=2, workers=1))
    assert [(node.name, str(node.address), node.role) for node in request.nodes] == [
        ("talos-default-controlplane-1", "10.5.0.2", Role.CONTROL_PLANE),
        ("talos-default-controlplane-2", "10.5.0.3", Role.CONTROL_PLANE),
        ("talos-default-worker-1", "10.5.0.4", Role.WORKER),
    ]
    assert str(request.gateway) == "10.5.0.1"
    assert [str(address) for address in request.endpoints] == ["10.5.0.2", "10.5.0.3"]
    assert str(request.interface(request.nodes[0])) == "10.5.0.2/24"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Not_A_Label"}, "can't be a cluster's name"),
        ({"name": "x" * 41}, "can't be a cluster's name"),
        ({"subnet": "10.5.0.1/24"}, "host bits set"),
        ({"subnet": "fd00::/64"}, "not IPv4"),
        ({"subnet": "10.5.0.0/29", "workers": 4}, "addresses for 4 nodes, not for 5"),
        ({"controlplanes": 0, "workers": 0}, "no cluster"),
        ({"disk": 1 << 20}, "too small"),
        ({"disks": [Disk("virtio", 6 << 30), Disk("virtio", 1 << 20)]}, "1 MiB is too small"),
        ({"subnet": "10.5.0.0/30", "workers": 0, "provider": Provider.QEMU}, "addresses for 0 nodes"),
        ({"nameservers": ["dns"]}, "dns"),
    ],
)
def test_what_can_not_be_is_refused_with_its_place(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        make_request(make_options(**changes))
    assert caught.value.where.startswith("--")


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GiB", 2 << 30), ("2.0GiB", 2 << 30), ("512MB", 512_000_000), ("512", 512 << 20), ("1.5gib", 3 << 29)],
)
def test_sizes_are_understood(text: str, size: int) -> None:
    assert parse_flag_size(text, where="--memory") == size


def test_a_size_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match="'much' is no size"):
        parse_flag_size("much", where="--memory")


def test_disks_of_machines() -> None:
    assert parse_disks(["virtio:10GiB", "nvme:6000"]) == (
        Disk("virtio", 10 << 30),
        Disk("nvme", 6000 << 20),
    )
    for text in ("10GiB", "floppy:1GiB", "virtio:", "virtio:much"):
        with pytest.raises(UserError, match="--disks"):
            parse_disks([text])
