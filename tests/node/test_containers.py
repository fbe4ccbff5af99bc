"""Services that are containers: pulled, run, replaced, gone, in a node's own containerd."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.harness.cluster import REPOSITORY, Cluster
from tests.harness.registry import Handler, Store, make_archive, running_registry

from talos.system.process import run_command

FOLDERS = ("usr", "lib", "lib64", "talos", "proc", "dev", "sys", "run")
SCRIPT = Path(__file__).with_name("contained.py")


@pytest.fixture
def store() -> Store:
    """An image with a file, and with the folders that the node's interpreter is mounted at."""
    store = Store()
    folders = {f"{name}/": b"" for name in FOLDERS}
    store.add_image("sample:1", folders, {"sample/": b"", "sample/file": b"from the image"})
    return store


def run_in_node(cluster: Cluster, port: int, scenario: str, image: str, *more: str) -> dict[str, Any]:
    """Run a scenario in the node's pid namespace, with a /proc that fits."""
    init = cluster.nodes[0].pid
    enter = (
        "nsenter",
        "-t",
        str(init),
        "-p",
        "unshare",
        "-m",
        "sh",
        "-c",
        'mount -t proc proc /proc && exec "$@"',
    )
    environment = {**cluster.environment, "PYTHONPATH": ":".join(sys.path)}
    argv = [*enter, "sh", sys.executable, str(SCRIPT), str(port), scenario, image, *more]
    done = run_command(argv, env=environment, cwd=REPOSITORY, check=False, timeout=150)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_container_runs_as_a_service(cluster: Cluster, store: Store) -> None:
    with running_registry(store) as registry:
        result = run_in_node(cluster, registry.port, "lifecycle", "registry.example/sample:1")
        requests = [request for request in registry.requests if "/blobs/" in request]
    assert result["image"]
    assert len(requests) == 3, "the config and both layers are fetched once, however often it starts"
    assert "/podruntime/sample" in result["group"]
    assert result["survived"], "a container goes on while its containerd is replaced"
    assert result["state"] == "Finished"
    assert result["left"] == []
    assert sorted(set(result["log"].splitlines())) == [
        "hello 60 1 from the image",
        "on stderr",
        "read-only 30",
    ]
    messages = [message.split(" (PID")[0].split(" ended")[0] for message in result["messages"]]
    assert messages[:4] == [
        "Starting service",
        "Running pre state",
        "Pulling image registry.example/sample:1",
        "Started task sample",
    ]
    assert sum(message.startswith("Pulling") for message in messages) == 1


def test_it_may_be_stopped_at_any_moment(cluster: Cluster, store: Store) -> None:
    store.add_image("stopped:1", {f"{name}/": b"" for name in FOLDERS}, {"sample/": b"", "sample/file": b"x"})
    with running_registry(store) as registry:
        result = run_in_node(cluster, registry.port, "stopped", "registry.example/stopped:1")
    assert set(result["states"]) <= {"Finished", "Initialized"}
    assert result["left"] == []


class WithoutBlobs(Handler):
    """Has manifests only."""

    def may_pass(self) -> bool:
        if "/blobs/" not in self.path:
            return True
        self.answer(404, b"", "text/plain")
        return False


def test_an_image_that_is_not_there_is_one_line(cluster: Cluster, store: Store) -> None:
    store.add_image("broken:1", {"only/": b""})
    with running_registry(store, WithoutBlobs) as registry:
        result = run_in_node(cluster, registry.port, "broken", "registry.example/broken:1")
    (message,) = [message for message in result["messages"] if "Could not start" in message][:1]
    assert message.startswith("Could not start: image registry.example/broken:1: blob sha256:")
    assert f"127.0.0.1:{registry.port}: it replied 404" in message
    assert "\n" not in message


def test_archives_are_imported(cluster: Cluster, tmp_path: Path) -> None:
    store = Store()
    store.add_image("archived:1", {"file": b"in the middle"}, {"other": b"of a layer"}, compress=False)
    archive = tmp_path / "archive.tar"
    archive.write_bytes(make_archive(store, {"registry.example/archived:1": "archived:1"}))
    result = run_in_node(cluster, 0, "imported", "registry.example/archived:1", str(archive))
    texts = result["texts"]
    assert texts.pop("whole") == "registry.example/archived:1"
    assert result["layers"] == 2
    assert "it is no tar archive (it is compressed with gzip" in texts["compressed"]
    assert "it is no tar archive" in texts["no archive"]
    assert "it has no index.json" in texts["empty"]
    assert "is damaged" in texts["damaged"]
    assert "is damaged" in texts["truncated"]
    assert not any("\n" in text for text in texts.values())


def test_plugins_of_networks_are_there(cluster: Cluster) -> None:
    names = {row["NAME"] for row in cluster.rows("ls", "-l", "/opt/cni/bin")}
    plugins = {"bridge", "firewall", "flannel", "host-local", "loopback", "portmap"}
    assert plugins <= {name.partition(" ")[0] for name in names}
