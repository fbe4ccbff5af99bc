"""Creating and destroying: what is refused, what is left."""

import os
import signal
from pathlib import Path

import pytest
from tests.harness.cluster import Cluster, check_services, eventually, image, running_cluster
from tests.harness.machine import remains

from talos.config.talosconfig.text import parse_talosconfig
from talos.provision.cluster import NodeState
from talos.provision.configs import ConfigOptions
from talos.provision.local import CreateOptions, create_cluster, destroy_cluster, reboot_node, show_cluster
from talos.provision.plan import ClusterOptions
from talos.provision.progress import NoProgress
from talos.provision.store import ClusterFolder
from talos.system.errors import UserError


def check_clean(name: str, directory: Path) -> None:
    """Nothing of a cluster may be left on the machine."""
    folder = ClusterFolder(directory.resolve() / name)

    def check() -> None:
        left = remains(folder)
        assert not left, left

    # The kernel takes namespaces apart a little later than their last process.
    eventually("nothing is left behind", check)


def test_a_destroyed_cluster_leaves_nothing_behind(tmp_path: Path) -> None:
    with running_cluster(tmp_path, workers=1) as cluster:
        assert parse_talosconfig(cluster.talosconfig.read_bytes()).context == cluster.name
        cluster.talosctl("version", "--short")
    check_clean(cluster.name, tmp_path)
    assert parse_talosconfig(cluster.talosconfig.read_bytes()).contexts == {}
    assert (
        destroy_cluster(cluster.name, tmp_path, NoProgress(), talosconfig=str(cluster.talosconfig)) is False
    )


def test_a_launcher_that_crashed_is_cleaned_up_after(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        init = cluster.nodes[0].pid
        os.kill(cluster.info.launcher, signal.SIGKILL)

        def is_over() -> None:
            assert not Path(f"/proc/{init}").exists(), "the node outlived its launcher"

        eventually("the node ends with its launcher", is_over)
        info = show_cluster(cluster.name, tmp_path)
        assert (info.launcher, info.nodes[0].state) == (0, NodeState.STOPPED)
    check_clean(cluster.name, tmp_path)


def test_a_cluster_goes_on_after_its_launcher_crashed(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        machine = cluster.talosctl("read", "/etc/machine-id").stdout
        os.kill(cluster.info.launcher, signal.SIGKILL)
        eventually("the launcher has ended", lambda: is_removed(cluster))
        assert reboot_node(cluster.name, tmp_path) == [cluster.nodes[0].name]
        eventually("the node is back", lambda: check_services(cluster, cluster.addresses[0]))
        assert cluster.talosctl("read", "/etc/machine-id").stdout == machine
    check_clean(cluster.name, tmp_path)


def is_removed(cluster: Cluster) -> None:
    """Assert that nothing of the cluster runs."""
    assert cluster.info.launcher == 0
    assert cluster.nodes[0].pid == 0


def test_obstacles_are_reported_before_anything_is_created(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        taken = str(cluster.info.subnet)
        not_an_image = tmp_path / "file"
        not_an_image.write_text("text")
        for chosen, message in (
            (ClusterOptions(name="other", subnet=taken, image=image()), "overlaps"),
            (ClusterOptions(name="other", subnet="10.199.0.0/24", image=not_an_image), "no squashfs image"),
            (ClusterOptions(name="other", subnet="10.199.0.0/24", image=tmp_path / "gone"), "can't be read"),
            (ClusterOptions(name=cluster.name, subnet="10.199.0.0/24", image=image()), "already there"),
        ):
            with pytest.raises(UserError, match=message):
                create(chosen, tmp_path, cluster)
        check_clean("other", tmp_path)


def test_a_cluster_that_does_not_start_leaves_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "broken.squashfs"
    broken.write_bytes(b"hsqs" + bytes(8192))
    chosen = ClusterOptions(name="broken", subnet="10.199.0.0/24", image=broken)
    options = CreateOptions(directory=tmp_path, merge_talosconfig=False)
    with pytest.raises(UserError, match="mount"):
        create_cluster(chosen, ConfigOptions(), options, NoProgress())
    check_clean("broken", tmp_path)


def create(chosen: ClusterOptions, directory: Path, cluster: Cluster) -> None:
    options = CreateOptions(directory=directory, talosconfig=str(cluster.talosconfig))
    create_cluster(chosen, ConfigOptions(), options, NoProgress())
