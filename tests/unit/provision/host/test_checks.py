"""Checks before a cluster is made."""

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from talos.provision.host.checks import check_inotify, check_subnet, count_inotify
from talos.system.errors import UserError

ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
talos-1\t0000050A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""


def test_a_subnet_in_use_is_refused_with_a_free_one() -> None:
    check_subnet(IPv4Network("10.6.0.0/24"), ROUTES)
    with pytest.raises(UserError, match=r"overlaps 192\.0\.2\.0/24, which this machine reaches through eth0"):
        check_subnet(IPv4Network("192.0.0.0/16"), ROUTES)
    with pytest.raises(UserError, match=r"another local cluster .*such as 10\.6\.0\.0/24"):
        check_subnet(IPv4Network("10.5.0.0/24"), ROUTES)


def test_nodes_of_kubernetes_need_instances_of_inotify(tmp_path: Path) -> None:
    check_inotify(5, used=78, limit=128)
    with pytest.raises(
        UserError, match=r"5 nodes takes 50 instances of inotify: 49 of 128 are free"
    ) as caught:
        check_inotify(5, used=79, limit=128)
    assert caught.value.hint == "sysctl -w fs.inotify.max_user_instances=8192"
    folder = tmp_path / "1/fd"
    folder.mkdir(parents=True)
    (folder / "0").symlink_to("/dev/null")
    (folder / "1").symlink_to("anon_inode:inotify")
    (tmp_path / "2").mkdir()
    assert count_inotify(tmp_path) == 1
