"""A cluster is upgraded as one: in an order, up to the first failure, and by a controller."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from subprocess import PIPE, run
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.cluster.test_upgrade import suspended, watch_trial
from tests.harness.availability import ETCD_GAP, writing_to_etcd
from tests.harness.cluster import Cluster, check_services, eventually, running_cluster
from tests.harness.etcd import end_upgrade, find_etcd, take_upgrade_lock
from tests.harness.releases import FIRST, Releases

from talos.provision.cluster import MIRROR_PORT, NodeInfo
from talos.system.process import CommandResult, run_command
from talos.talosctl.cli.exit import Exit
from talos.upgrade.release.archive import REPOSITORY
from talos.upgrade.release.signature import format_public
from talos.upgrade_controller.window import DAYS

UPGRADE_TIMEOUT = 300.0  # seconds
"""For a whole upgrade."""
type Rows = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def cluster(releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three members of etcd and two workers."""
    directory = tmp_path_factory.mktemp("clusters")
    images, stamp = releases.images, releases.stamp()
    with running_cluster(directory, controlplanes=3, workers=2, images=images, stamp=stamp) as running:
        yield running


def upgrade(cluster: Cluster, nodes: list[NodeInfo], image: str, *argv: str) -> tuple[CommandResult, Rows]:
    """Upgrade nodes as users do; what was printed, and what became of each node by its name."""
    result = cluster.talosctl(*make_argv(cluster, nodes, image, *argv), check=False, seconds=UPGRADE_TIMEOUT)
    return result, read_rows(result.stdout)


def make_argv(cluster: Cluster, nodes: list[NodeInfo], image: str, *argv: str) -> list[str]:
    """The arguments of such an upgrade."""
    addresses = ",".join(str(node.address) for node in nodes)
    everywhere = ",".join(cluster.addresses[:3])
    return ["-e", everywhere, "-n", addresses, "upgrade", "--image", image, "-o", "json", *argv]


def read_rows(stdout: str) -> Rows:
    """What became of each node, by its name."""
    rows: list[dict[str, Any]] = json.loads(stdout)["nodes"] if stdout else []
    return {row["hostname"]: row for row in rows}


def test_all_nodes_by_one_command(cluster: Cluster, releases: Releases) -> None:
    nodes = list(cluster.nodes)
    image = releases.make("v1.15.1")
    with writing_to_etcd(cluster, nodes[:3]) as gaps:
        result, rows = upgrade(cluster, [*nodes[3:], *nodes[:3]], image, "--parallel", "2")
    assert result.returncode == 0, result.stderr
    assert {row["result"] for row in rows.values()} == {"done"}, rows
    assert {(row["before"], row["after"]) for row in rows.values()} == {(FIRST, "v1.15.1")}
    assert list(rows) == [node.name for node in nodes], "control plane nodes come first"
    assert max(gaps) < ETCD_GAP, f"etcd took no write for {max(gaps):.1f} s"
    for node in nodes:
        eventually(f"{node.name} is well", partial(check_services, cluster, str(node.address)))
    # The lock was given back by the last one.
    first = cluster.nodes[0]
    take_upgrade_lock(cluster, first)
    end_upgrade(cluster, first)
    result, rows = upgrade(cluster, nodes, image)
    assert result.returncode == 0, result.stderr
    assert {row["result"] for row in rows.values()} == {"runs it already"}


def test_a_slow_member_ends_nothing_and_a_node_that_fails_does(
    cluster: Cluster, releases: Releases, tmp_path: Path
) -> None:
    _, second, third, fourth, fifth = cluster.nodes
    image, path = releases.make("v1.15.2"), tmp_path / "stderr"
    command = cluster.command(*make_argv(cluster, [third, fourth, fifth], image))
    with (
        watch_trial(cluster, fourth, lambda trial: os.kill(trial.pid, signal.SIGKILL)),
        path.open("w") as stderr,
        ThreadPoolExecutor(1) as pool,
    ):
        with suspended(find_etcd(second)):
            started = partial(run, command, env=cluster.environment, stdout=PIPE, stderr=stderr, text=True)
            running = pool.submit(started, timeout=UPGRADE_TIMEOUT)
            text = f"waiting for up to 30 s: etcd member {second.name} is not healthy"
            shown = partial(check_text, path, text)
            eventually("the upgrade waits for the member", shown, seconds=UPGRADE_TIMEOUT)
        result = running.result()
    rows, printed = read_rows(result.stdout), path.read_text()
    assert result.returncode == 1
    results = [rows[node.name]["result"] for node in (third, fourth, fifth)]
    assert results == ["done", "failed", "not started"], printed
    assert "v1.15.2 was reverted, v1.15.1 runs" in rows[fourth.name]["reason"]
    assert f"error: stopped: {fourth.address} ({fourth.name}): v1.15.2 was reverted" in printed
    eventually("it is well again", lambda: check_services(cluster, str(fourth.address)))


def check_text(path: Path, text: str) -> None:
    """Assert that a file has a text."""
    assert text in path.read_text(), path.read_text()


def test_what_speaks_against_it_is_found_before_the_first_node(cluster: Cluster) -> None:
    nodes = list(cluster.nodes)
    result, rows = upgrade(cluster, nodes, f"{REPOSITORY}:v1.14.0")
    assert (result.returncode, rows) == (1, {})
    assert "the release v1.14.0 is older than the running v1.15.1; force allows it" in result.stderr
    assert "nothing has been changed" in result.stderr
    unused = cluster.info.subnet[-2]  # there is the mirror, and no node
    result = cluster.talosctl(
        "-n", f"{nodes[4].address},{unused}", "upgrade", "--image", f"{REPOSITORY}:v1.15.2", check=False
    )
    assert result.returncode in {Exit.UNREACHABLE, Exit.TIMED_OUT}
    assert f"{unused}: " in result.stderr
    assert "nothing has been changed" in result.stderr


class Controller:
    """The controller beside a cluster, with a certificate that can do nothing else."""

    def __init__(self, cluster: Cluster, releases: Releases, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.path = folder / "config.yaml"
        talosconfig = folder / "upgrade.talosconfig"
        cluster.talosctl(
            *("-n", cluster.addresses[0], "config", "new", "--roles", "os:upgrade"),
            *("--crt-ttl", "1h", str(talosconfig)),
        )
        (folder / "release.pub").write_bytes(format_public(releases.key.public_key()))
        self.config: dict[str, Any] = {
            "channel": {
                "image": f"{REPOSITORY}:stable",
                "keys": ["release.pub"],
                "endpoint": f"http://{cluster.info.subnet[-2]}:{MIRROR_PORT}",
            },
            "talosconfig": talosconfig.name,
            "nodes": {"roles": ["worker"]},
            "parallel": 2,
            "allowUnhealthy": True,  # the kubelets have no image here
            "status": "status.json",
        }

    def once(self, **more: Any) -> tuple[int, dict[str, Any]]:
        """One look with a changed config; the exit code and the status."""
        self.path.write_text(yaml.safe_dump(self.config | more))
        code = self.run("run", "--once").returncode
        return code, json.loads(self.run("status", "-o", "json").stdout)

    def run(self, *argv: str) -> CommandResult:
        """Run the program."""
        command = [
            sys.executable,
            "-m",
            "talos.upgrade_controller.main",
            *argv,
            "--config",
            str(self.path),
        ]
        return run_command(command, env=self.cluster.environment, check=False, timeout=UPGRADE_TIMEOUT)


def test_a_controller_upgrades_within_its_window(
    cluster: Cluster, releases: Releases, tmp_path: Path
) -> None:
    controller = Controller(cluster, releases, tmp_path)
    releases.make("v1.15.4", tag="stable", key=Ed25519PrivateKey.generate())
    code, status = controller.once()
    assert (code, status["state"]) == (1, "error")
    assert "is of none of the 1 keys" in status["reason"]
    releases.make("v1.15.3", tag="stable")
    code, status = controller.once(paused=True)
    assert (code, status["state"], status["release"]["version"]) == (0, "paused", "v1.15.3")
    code, status = controller.once(windows=[{"days": [find_other_day()], "from": "00:00", "to": "24:00"}])
    assert (code, status["state"]) == (0, "waiting")
    assert {node["version"] for node in status["nodes"]} == {"v1.15.1"}
    code, status = controller.once(windows=[{"from": "00:00", "to": "24:00"}])
    assert (code, status["state"]) == (0, "current"), status
    assert [(node["hostname"], node["version"]) for node in status["nodes"]] == [
        (node.name, "v1.15.3") for node in cluster.nodes[3:]
    ]
    assert status["upgrade"]["image"].startswith(f"{REPOSITORY}@sha256:")


def find_other_day() -> str:
    """A day of the week that is far from today."""
    return DAYS[(datetime.now(UTC).weekday() + 3) % len(DAYS)]


def test_its_certificate_does_nothing_else(cluster: Cluster, releases: Releases, tmp_path: Path) -> None:
    controller = Controller(cluster, releases, tmp_path)
    talosconfig = controller.folder / "upgrade.talosconfig"
    node = ("-n", cluster.addresses[4])
    for argv in (
        ("read", "/etc/os-release"),
        ("rollback",),
        ("shutdown", "--wait=false"),
        ("get", "osrootsecrets"),
        ("upgrade", "--legacy", "--image", f"{REPOSITORY}:v1.15.1", "--wait=false"),
    ):
        result = cluster.talosctl("--talosconfig", str(talosconfig), *node, *argv, check=False)
        assert result.returncode == Exit.REFUSED, argv
        assert "your certificate has os:upgrade" in result.stderr, (argv, result.stderr)
