"""The user's kubeconfig gets clusters and loses them again; nodes that are not ready are named."""

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.empty_pb2 import Empty
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.common.common_pb2 import Data
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


KUBECONFIG = "/machine.MachineService/Kubeconfig"


def kubeconfig(**changes: str) -> str:
    fields = {"server": "https://10.5.0.2:6443", "cluster": "c", "user": "admin@c", "context": "admin@c"}
    return format_kubeconfig(
        Kubeconfig(authority=b"authority", certificate=b"crt", key=b"key", **{**fields, **changes})
    )


def packed(text: str, name: str = "kubeconfig") -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text.encode()))
    return archive.getvalue()


def edit(change: Callable[[Any], object]) -> bytes:
    document = yaml.safe_load(kubeconfig())
    change(document)
    return packed(yaml.safe_dump(document))


RUNS = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", "id"]}


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        (edit(lambda it: it["users"][0]["user"].update(exec=RUNS)), "users[0].user.exec"),
        (edit(lambda it: it["users"][0]["user"].update({"client-key": "/x"})), "users[0].user.client-key"),
        (
            edit(lambda it: it["clusters"][0]["cluster"].update({"proxy-url": "http://x"})),
            "clusters[0].cluster.proxy-url",
        ),
        (edit(lambda it: it["users"].append({"name": {}, "user": {}})), "one entry of users"),
        (edit(lambda it: it["contexts"][0]["context"].update(user="x")), "another cluster or user"),
        (edit(lambda it: it["users"][0]["user"].update({"client-key-data": "?"})), "base64"),
        (packed("- a"), "no fields at its top"),
        (packed(kubeconfig(), "other"), "does not begin with a file kubeconfig"),
        (b"no archive", "can't be unpacked"),
        (gzip.compress(bytes(64 << 20)), "does not begin with"),
        (bytes(2 << 20), "more than 1048576 bytes"),
    ],
)
def test_a_kubeconfig_has_what_nodes_issue_and_nothing_else(
    talosctl: Client, node: FakeNode, tmp_path: Path, archive: bytes, reason: str
) -> None:
    node.on(KUBECONFIG, Empty, [Data(bytes=archive)], stream=True)
    path = tmp_path / "config"
    result = talosctl("kubeconfig", "-n", "10.0.0.2", str(path))
    assert (result.code, result.out) == (1, "")
    assert reason in result.err
    assert not path.exists()


def test_a_kubeconfig_is_kept_as_it_came(talosctl: Client, node: FakeNode, tmp_path: Path) -> None:
    node.on(KUBECONFIG, Empty, [Data(bytes=packed(kubeconfig(namespace="default")))], stream=True)
    path = tmp_path / "config"
    assert talosctl("kubeconfig", "-n", "10.0.0.2", str(path)).code == 0
    assert path.read_text() == kubeconfig(namespace="default")


def test_contexts_of_other_clusters_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "config"
    merge_into(path, kubeconfig())
    before = yaml.safe_load(path.read_text())
    foreign = kubeconfig(server="https://198.51.100.1").replace("YXV0aG9yaXR5", "b3RoZXI=")
    assert merge_into(path, foreign) == "admin@c-1"
    after = yaml.safe_load(path.read_text())
    for key in ("clusters", "users", "contexts"):
        assert after[key][0] == before[key][0]
    assert after["contexts"][1]["context"] == {"cluster": "c-1", "user": "admin@c-1"}
    assert merge_into(path, kubeconfig(server="https://10.5.0.3")) == "admin@c-2", "the same cluster moves"
    assert {
        row["name"]: row["cluster"]["server"] for row in yaml.safe_load(path.read_text())["clusters"]
    } == {
        "c": "https://10.5.0.3",
        "c-1": "https://198.51.100.1",
    }
