"""The user's kubeconfig gets clusters and loses them again; nodes that are not ready are named."""

from pathlib import Path

import pytest
import yaml

from talos.config.kubeconfig import Kubeconfig, format_kubeconfig
from talos.system.errors import UserError
from talos.talosctl.client.kubeconfig import merge_into, remove_from
from talos.talosctl.commands.cluster_kubernetes import find_unready


def make(cluster: str, authority: bytes) -> str:
    return format_kubeconfig(
        Kubeconfig(
            server="https://10.5.0.2:6443",
            authority=authority,
            cluster=cluster,
            user=f"admin@{cluster}",
            context=f"admin@{cluster}",
            certificate=b"certificate",
            key=b"key",
        )
    )


def test_what_was_merged_can_be_taken_out_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config"
    assert merge_into(path, make("first", b"one")) == "admin@first"
    before = yaml.safe_load(path.read_text())
    assert before["kind"] == "Config"
    assert merge_into(path, make("second", b"two")) == "admin@second"
    assert path.stat().st_mode & 0o777 == 0o600
    assert remove_from(path, make("second", b"two")) == ["admin@second"]
    assert yaml.safe_load(path.read_text()) == before
    assert remove_from(path, make("first", b"three")) == [], (
        "a cluster of the same name, not of this authority"
    )
    assert yaml.safe_load(path.read_text()) == before
    assert remove_from(path, make("first", b"one")) == ["admin@first"]
    assert yaml.safe_load(path.read_text())["contexts"] == []


@pytest.mark.parametrize("text", ["- a list", "clusters: {}x", "users: [{user: {}}]"])
def test_a_file_that_is_no_kubeconfig_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(UserError, match=str(path)):
        merge_into(path, make("first", b"one"))
    assert path.read_text() == text


def test_nodes_that_are_not_ready_are_named_with_the_reason() -> None:
    def node(name: str, **ready: str) -> object:
        conditions = [{"type": "MemoryPressure", "status": "False"}]
        return {
            "metadata": {"name": name},
            "status": {"conditions": [*conditions, *([ready] if ready else [])]},
        }

    nodes = [
        node("a", type="Ready", status="True"),
        node("b", type="Ready", status="False", message="no network"),
        node("c"),
    ]
    assert find_unready(nodes, ["a", "b", "c", "d"]) == [
        "b is not ready: no network",
        "c is not ready: the kubelet has not reported",
        "d has not joined",
    ]
    assert find_unready(nodes, ["a"]) == []
