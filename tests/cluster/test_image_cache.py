"""A node that reaches no registry starts etcd from its own cache of images."""

import os
import signal
from collections.abc import Iterator

import pytest
from tests.harness.cluster import Cluster, eventually, image_archives, running_cluster

from talos.config.change.patch import parse_patch
from talos.provision.configs import ConfigOptions
from talos.provision.mirror.archive_cache import cache_archives

NO_REGISTRY = """\
apiVersion: v1alpha1
kind: RegistryMirrorConfig
name: "*"
endpoints: [{url: "http://127.0.0.1:9"}]
skipFallback: true
"""
ROOT = "/system/imagecache/disk"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node, on which etcd runs."""
    folder = tmp_path_factory.mktemp("clusters")
    cache_archives(image_archives(), folder / "cache", is_wanted=lambda image: image.name == "etcd")
    configs = ConfigOptions(patches=[parse_patch(NO_REGISTRY, source="patch")])
    with running_cluster(folder, image_cache=folder / "cache", configs=configs) as running:
        yield running


def test_etcd_runs_from_the_cache(cluster: Cluster) -> None:
    (cache,) = cluster.resource("imagecacheconfigs")
    assert cache["spec"] == {"status": "ready", "copyStatus": "skipped", "roots": [ROOT]}
    (row,) = cluster.rows("get", "icc")
    assert (row["STATUS"], row["COPYSTATUS"]) == ("ready", "skipped")
    services = cluster.services()
    assert (services["etcd"]["HEALTH"], services["registryd"]["HEALTH"]) == ("OK", "OK")
    # Pods' images come from it as well.
    hosts = cluster.root() / "etc/cri/conf.d/hosts/_default/hosts.toml"
    assert 'host."http://127.0.0.1:3172/v2"' in hosts.read_text(encoding="utf-8")


def test_an_image_that_is_not_cached_is_not_found_anywhere(cluster: Cluster) -> None:
    result = cluster.talosctl("image", "pull", "registry.example/team/app:1", check=False)
    assert result.returncode != 0
    assert "127.0.0.1:3172: it replied 404; 127.0.0.1:9: connection refused" in result.stderr


def test_a_cache_that_ends_is_served_again(cluster: Cluster) -> None:
    (pid,) = cluster.processes()["registryd"]
    os.kill(pid, signal.SIGKILL)

    def is_back() -> None:
        assert cluster.processes().get("registryd", [pid]) != [pid]
        (cache,) = cluster.resource("imagecacheconfigs")
        assert cache["spec"]["status"] == "ready"  # type: ignore[index]

    eventually("registryd is back", is_back)
