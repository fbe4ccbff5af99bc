"""The configs of a new cluster's nodes."""

from pathlib import Path

import pytest

from talos.config.change.patch import parse_patch
from talos.config.contract import CURRENT, Contract
from talos.config.documents.network.time_sync import TimeSyncConfig
from talos.config.effective.cluster import discovery_endpoints
from talos.config.effective.machine import is_image_cache_enabled
from talos.config.problem import ConfigError
from talos.config.read.loader import load
from talos.provision.cluster import Disk, Provider, Role
from talos.provision.configs import ConfigOptions, generate_configs
from talos.provision.plan import ClusterOptions, make_request
from talos.system.errors import UserError


@pytest.mark.parametrize("disks", [[], [Disk("virtio", 6 << 30)]], ids=["containers", "machines"])
def test_machines_wait_a_moment_for_the_time(disks: list[Disk]) -> None:
    provider = Provider.QEMU if disks else Provider.CONTAINER
    request = make_request(ClusterOptions(image=Path("image"), provider=provider, disks=disks))
    generated = generate_configs(request, ConfigOptions())
    clocks = [load(node.config).find(TimeSyncConfig) for node in generated.request.nodes]
    timeouts = {clock.boot_timeout.seconds if clock and clock.boot_timeout else None for clock in clocks}
    assert timeouts == {10.0 if disks else None}


@pytest.mark.parametrize("cache", [None, Path("cache")])
def test_a_cache_of_images_is_used(cache: Path | None) -> None:
    request = make_request(ClusterOptions(image=Path("image"), image_cache=cache))
    generated = generate_configs(request, ConfigOptions())
    for node in generated.request.nodes:
        assert is_image_cache_enabled(load(node.config)) == bool(cache)


def test_a_patch_that_a_node_would_refuse_is_refused_at_once() -> None:
    request = make_request(ClusterOptions(image=Path("image")))
    patch = parse_patch("machine: {kubelet: {image: example.org/kubelet:v1}}", source="patch")
    with pytest.raises(ConfigError, match=r"machine\.kubelet\.image: is also set by KubeletConfig"):
        generate_configs(request, ConfigOptions(patches=[patch]))


def test_a_version_that_nodes_would_refuse_is_refused_at_once() -> None:
    request = make_request(ClusterOptions(image=Path("image")))
    with pytest.raises(ConfigError, match=r"version of Kubernetes 1\.20 is too old"):
        generate_configs(request, ConfigOptions(kubernetes_version="1.20.0"))


def test_configs_have_the_layout_of_a_version() -> None:
    request = make_request(ClusterOptions(image=Path("image"), workers=1))
    for node in generate_configs(request, ConfigOptions(contract=(1, 0))).request.nodes:
        assert "kind:" not in node.config, "there were no documents of kinds"
        assert load(node.config).machine_type.is_control_plane is (node.role is Role.CONTROL_PLANE)


@pytest.mark.parametrize("version", [(1, 0), (1, 13), CURRENT])
def test_nodes_find_each_other_by_the_cluster_s_own_server(version: Contract) -> None:
    request = make_request(ClusterOptions(image=Path("image"), controlplanes=2))
    for node in generate_configs(request, ConfigOptions(contract=version)).request.nodes:
        assert [*discovery_endpoints(load(node.config)).values()] == [request.discovery_endpoint]


@pytest.mark.parametrize("subnet", ["10.244.7.0/24", "10.100.0.0/16"])
def test_nodes_have_no_addresses_of_pods_or_services(subnet: str) -> None:
    request = make_request(ClusterOptions(image=Path("image"), subnet=subnet))
    with pytest.raises(UserError, match=f"--subnet: {subnet} overlaps with 10.* pods or services"):
        generate_configs(request, ConfigOptions())
