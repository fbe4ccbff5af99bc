"""Pods as the kubelet makes them, by containerd's runtime interface: shown, measured, logged."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import grpc
import pytest
from tests.harness.cluster import Cluster, eventually
from tests.harness.elf import make_program
from tests.harness.registry import Store, make_archive
from tests.node.test_containers import run_in_node

from talos.machined.containerd.config import SANDBOX_IMAGE

APP = "registry.example/app:1"
LOG = "/var/log/pods/team_web_uid-1"
POD = {
    "io.kubernetes.pod.name": "web",
    "io.kubernetes.pod.namespace": "team",
    "io.kubernetes.pod.uid": "uid-1",
}
NODE_NETWORK = 2


def encode(fields: Mapping[int, object]) -> bytes:
    """A message of the runtime interface, by the numbers of its fields."""
    parts: list[bytes] = []
    for number, value in fields.items():
        match value:
            case int():
                parts.append(bytes([number << 3, value]))
            case str():
                parts.append(_delimit(number, value.encode()))
            case bytes():
                parts.append(_delimit(number, value))
            case _:  # a map of texts
                items = cast("dict[str, str]", value).items()
                parts += [_delimit(number, encode({1: key, 2: item})) for key, item in items]
    return b"".join(parts)


def _delimit(number: int, data: bytes) -> bytes:
    size = len(data)
    length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    return bytes([number << 3 | 2]) + length + data


def first_text(message: bytes) -> str:
    """The text in the first field of a short message."""
    return message[2 : 2 + message[1]].decode()


@dataclass(frozen=True, slots=True)
class Pod:
    """A running pod with one container."""

    container: str
    call: Callable[[str, bytes], bytes]


@pytest.fixture(scope="module")
def pod(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    store = Store()
    store.add_image("pause:1", {"pause": make_program()}, command=["/pause"])
    store.add_image("app:1", {"app": make_program(b"one\ntwo\n")}, command=["/app"])
    archive = tmp_path_factory.mktemp("images") / "images.tar"
    archive.write_bytes(make_archive(store, {SANDBOX_IMAGE: "pause:1", APP: "app:1"}))
    run_in_node(cluster, 0, "loaded", APP, str(archive))
    cluster.root().joinpath(LOG.lstrip("/"), "app").mkdir(parents=True)
    socket = cluster.root() / "run/containerd/containerd.sock"
    with grpc.insecure_channel(
        f"unix:{socket}", options=[("grpc.default_authority", "localhost")]
    ) as channel:

        def call(method: str, request: bytes) -> bytes:
            send = cast("Callable[..., bytes]", channel.unary_unary(f"/runtime.v1.RuntimeService/{method}"))
            return send(request, timeout=60)

        metadata = encode({1: "web", 2: "uid-1", 3: "team"})
        security = encode({1: encode({1: NODE_NETWORK})})
        linux = encode({1: "/kubepods/web", 2: security})
        sandbox_config = encode({1: metadata, 3: LOG, 6: POD, 8: linux})
        sandbox = first_text(call("RunPodSandbox", encode({1: sandbox_config})))
        labels = {**POD, "io.kubernetes.container.name": "app"}
        config = encode({1: encode({1: "app"}), 2: encode({1: APP}), 9: labels, 11: "app/0.log"})
        request = encode({1: sandbox, 2: config, 3: sandbox_config})
        container = first_text(call("CreateContainer", request))
        call("StartContainer", encode({1: container}))
        yield Pod(container, call)
        call("StopPodSandbox", encode({1: sandbox}))
        call("RemovePodSandbox", encode({1: sandbox}))


def test_a_pod_is_shown_and_measured(cluster: Cluster, pod: Pod) -> None:
    node = ("-n", cluster.addresses[0])
    name = f"team/web:app:{pod.container[:12]}"
    rows = {row["ID"].removeprefix("└─ "): row for row in cluster.rows(*node, "containers", "-k")}
    assert rows["team/web"]["STATUS"] == "SANDBOX_READY"
    assert rows["team/web"]["IMAGE"] == SANDBOX_IMAGE
    assert (rows[name]["STATUS"], rows[name]["IMAGE"]) == ("CONTAINER_RUNNING", APP)
    stats = {row["CONTAINER"].removeprefix("└─ ") for row in cluster.rows(*node, "stats", "-k")}
    assert {"team/web", name} <= stats


def test_a_containers_log(cluster: Cluster, pod: Pod) -> None:
    node = ("-n", cluster.addresses[0])
    name = f"team/web:app:{pod.container[:12]}"

    def has_log() -> None:
        lines = cluster.talosctl(*node, "logs", "-k", name).stdout.splitlines()
        assert [line.rpartition(" ")[2] for line in lines] == ["one", "two"]

    eventually("both lines are there", has_log)
    last = cluster.talosctl(*node, "logs", "-k", pod.container, "--tail", "1").stdout
    assert "stdout F two" in last
    assert "stdout F one" not in last
    result = cluster.talosctl(*node, "logs", "-k", "team/web", check=False)
    assert "has no log" in result.stderr


def test_a_container_is_ended_for_its_creator_to_restart(cluster: Cluster, pod: Pod) -> None:
    node = ("-n", cluster.addresses[0])
    name = f"team/web:app:{pod.container[:12]}"
    cluster.talosctl(*node, "restart", "-k", name)

    def has_ended() -> None:
        rows = cluster.rows(*node, "containers", "-k")
        assert [row["STATUS"] for row in rows if row["ID"].endswith(name)] == ["CONTAINER_EXITED"]

    eventually("it has ended", has_ended)
