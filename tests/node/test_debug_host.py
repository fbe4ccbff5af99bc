"""Debug containers in the node's own namespaces: what they see and change; nothing of them is left."""

import json
import os
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import grpc
import pytest
from tests.harness.cluster import Cluster, eventually
from tests.harness.credentials import API_PORT, authority_of, credentials_of
from tests.harness.registry import Store, make_archive
from tests.node.test_debug import commands, list_left

from talos.api.common.common_pb2 import ContainerdInstance, ContainerdNamespace, ContainerDriver, Data
from talos.api.machine.debug_pb2 import (
    DebugContainerRunRequest,
    DebugContainerRunRequestSpec,
    DebugContainerRunResponse,
)
from talos.api.machine.image_pb2 import ImageServiceImportRequest, ImageServiceImportResponse

NAME = "registry.example/tools:1"
BIN = "nix/var/nix/profiles/default/bin"
PYTHON = "/usr/bin/python3.13"
"""The node's: a program of the image that is a script proves that the node's files are there."""
BEGIN = f"""#!{PYTHON} -IS
import sys
sys.path.insert(0, "/usr/lib/talos")
from talos.startup.bundle import BUNDLES, install
install(BUNDLES)
"""
STATUS = f"""{BEGIN}
import json, os, pathlib
def ids(pid):
    return [os.readlink(f"/proc/{{pid}}/ns/{{kind}}") for kind in ("mnt", "pid", "net", "ipc", "uts")]
path = pathlib.Path
written = path("/etc/written"), path("/nix/written")
for one in written:
    one.write_text("x")
print(json.dumps({{
    "is_host": ids("self") == ids(1),
    "first": path("/proc/1/comm").read_text().strip(),
    "oom": path("/proc/self/oom_score_adj").read_text().strip(),
    "group": path("/proc/self/cgroup").read_text().strip(),
    "session": os.getsid(0) == os.getpid(),
    "resolv": path("/etc/resolv.conf").read_text(),
    "nix": path("/etc/nix/nix.conf").read_text(),
    "run": sorted(os.listdir("/system/run")),
    "tty": os.ttyname(0) if os.isatty(0) else "",
    "nested": os.listdir("/run/debug/" + os.listdir("/run/debug")[0]),
    "layers": os.listdir("/var/system/debug"),
    "home": os.environ["HOME"],
}}))
"""
SHELL = f"""{BEGIN}
import sys
print("the shell", sys.argv, flush=True)
for line in sys.stdin:
    print("read", line.strip(), flush=True)
"""
CHANGE = f"""{BEGIN}
import ctypes, os, sys
libc = ctypes.CDLL(None)
os.makedirs("/var/mnt/propagated", exist_ok=True)
assert libc.mount(b"tmpfs", b"/var/mnt/propagated", b"tmpfs", 0, None) == 0
open("/var/mnt/propagated/made", "w").close()
"""
UNDO = f"""{BEGIN}
import ctypes, os
assert ctypes.CDLL(None).umount(b"/var/mnt/propagated") == 0
os.rmdir("/var/mnt/propagated")
"""
WAIT = f"""{BEGIN}
import os, time
child = os.posix_spawn("{PYTHON}", ["{PYTHON}", "-IS", "-c",
    "import time; print('child is there', flush=True); time.sleep(3600)", "4713"], os.environ)
import _signal
def end(*_):
    print("child ended with", -os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os._exit(5)
_signal.signal(15, end)
time.sleep(3600)
"""
FILES = {
    f"{BIN}/status": STATUS.encode(),
    f"{BIN}/bash": SHELL.encode(),
    f"{BIN}/change": CHANGE.encode(),
    f"{BIN}/undo": UNDO.encode(),
    f"{BIN}/wait": WAIT.encode(),
}
PLACE = ContainerdInstance(driver=ContainerDriver.CONTAINERD, namespace=ContainerdNamespace.NS_SYSTEM)


@pytest.fixture(scope="module")
def channel(cluster: Cluster) -> Iterator[grpc.Channel]:
    """To a node that has two images: one with programs in /nix, one without."""
    store = Store()
    store.add_image("tools:1", FILES)
    store.add_image("plain:1", {"bin/status": b""})
    credentials = credentials_of(authority_of(cluster), "os:admin")
    with grpc.secure_channel(f"{cluster.addresses[0]}:{API_PORT}", credentials) as opened:
        send = opened.stream_unary(
            "/machine.ImageService/Import",
            request_serializer=ImageServiceImportRequest.SerializeToString,
            response_deserializer=ImageServiceImportResponse.FromString,
        )
        for name, place in ((NAME, "tools:1"), ("registry.example/plain:1", "plain:1")):
            data = make_archive(store, {name: place})
            parts = [ImageServiceImportRequest(containerd=PLACE)]
            parts.append(ImageServiceImportRequest(image_chunk=Data(bytes=data)))
            assert send(iter(parts), timeout=60).name == name
        yield opened


@pytest.fixture(autouse=True)
def nothing_is_left(cluster: Cluster) -> Generator[None]:
    yield

    def is_gone() -> None:
        root = cluster.root()
        folders = [*root.glob("run/debug/*"), *root.glob("run/overlays/debug-*")]
        assert [*list_left(cluster), *folders, *root.glob("var/system/debug/*")] == []
        mounts = (root / "proc/1/mountinfo").read_text(encoding="utf-8")
        assert "debug-" not in mounts
        assert "/run/debug" not in mounts

    eventually("nothing is left", is_gone)


class Run:
    """One call."""

    def __init__(self, channel: grpc.Channel, argv: tuple[str, ...], image: str, *, tty: bool) -> None:
        self.requests = SimpleQueue[DebugContainerRunRequest | None]()
        self.text, self.code = "", None
        spec = DebugContainerRunRequestSpec(
            containerd=PLACE,
            image_name=image,
            profile=DebugContainerRunRequestSpec.PROFILE_HOST_NS,
            args=argv,
            tty=tty,
        )
        self.requests.put(DebugContainerRunRequest(spec=spec))
        run = channel.stream_stream(
            "/machine.DebugService/ContainerRun",
            request_serializer=DebugContainerRunRequest.SerializeToString,
            response_deserializer=DebugContainerRunResponse.FromString,
        )
        self.replies = run(iter(self.requests.get, None), timeout=60)

    def read(self, wanted: str = "") -> str:
        """Read until a text comes, or until the end."""
        for reply in self.replies:
            self.text += reply.stdout_data.decode()
            if reply.HasField("exit_code"):
                self.code = reply.exit_code
                self.requests.put(None)
            if wanted and wanted in self.text:
                break
        return self.text


@contextmanager
def running(channel: grpc.Channel, *argv: str, image: str = NAME, tty: bool = False) -> Generator[Run]:
    run = Run(channel, argv, image, tty=tty)
    try:
        yield run
    finally:
        run.requests.put(None)
        run.replies.cancel()


@pytest.mark.parametrize("tty", [False, True])
def test_it_is_in_the_nodes_namespaces(cluster: Cluster, channel: grpc.Channel, tty: bool) -> None:
    with running(channel, "status", tty=tty) as run:
        text = run.read()
    assert run.code == 0, text
    seen = json.loads(text)
    assert seen["is_host"], seen
    assert (seen["first"], seen["oom"], seen["session"], seen["home"]) == ("init", "500", True, "/root")
    assert "/debug/debug-" in seen["group"]
    assert "containerd" in seen["run"]
    root = cluster.root()
    assert seen["resolv"] == (root / "etc/resolv.conf").read_text(encoding="utf-8")
    assert "sandbox = false" in seen["nix"]
    assert seen["tty"].startswith("/dev/pts/" if tty else ""), seen
    # Its own root does not appear within itself.
    assert (seen["nested"], len(seen["layers"])) == ([], 1)
    assert not (root / "etc/written").exists()


def test_what_it_mounts_below_var_is_the_nodes(cluster: Cluster, channel: grpc.Channel) -> None:
    mounted = cluster.root() / "var/mnt/propagated"
    before = (cluster.root() / "proc/1/mountinfo").read_text(encoding="utf-8")
    with running(channel, "change") as run:
        assert (run.read(), run.code) == ("", 0)
    assert (mounted / "made").exists()
    with running(channel, "undo") as run:
        assert (run.read(), run.code) == ("", 0)
    assert not mounted.exists()
    assert (cluster.root() / "proc/1/mountinfo").read_text(encoding="utf-8") == before


def test_its_command_is_the_images_shell(channel: grpc.Channel) -> None:
    with running(channel) as run:
        run.requests.put(DebugContainerRunRequest(stdin_data=b"hello\n"))
        run.read("read hello")
        run.requests.put(None)
        text = run.read()
    assert "the shell" in text
    assert run.code == 0


def test_signals_reach_its_process_group(cluster: Cluster, channel: grpc.Channel) -> None:
    with running(channel, "wait") as run:
        run.read("child is there")
        run.requests.put(DebugContainerRunRequest(signal=signal.SIGTERM))
        text = run.read()
    assert "child ended with 15" in text
    assert run.code == 5


def test_it_ends_with_its_client(cluster: Cluster, channel: grpc.Channel) -> None:
    with running(channel, "wait", tty=True) as run:
        run.read("child is there")

    def is_gone() -> None:
        assert not [line for line in commands(cluster) if line.endswith("4713")]

    eventually("its processes are gone", is_gone)


def test_a_link_in_place_of_its_folder_is_not_followed(cluster: Cluster, channel: grpc.Channel) -> None:
    """A pod may have left it: nothing is written or removed where it leads."""
    root = cluster.root()
    folder, target = root / "var/system/debug", root / "var/mnt/elsewhere"
    target.mkdir(parents=True)
    (target / "kept").touch()
    folder.rmdir()
    folder.symlink_to("/var/mnt/elsewhere")
    try:
        with running(channel, "status") as run:
            run.read()
        assert run.code == 0
        assert [path.name for path in target.iterdir()] == ["kept"]
        assert not folder.is_symlink()
    finally:
        (target / "kept").unlink()
        target.rmdir()


def test_what_a_loss_of_power_left_is_removed(cluster: Cluster, channel: grpc.Channel) -> None:
    left = cluster.root() / "var/system/debug/debug-1/root"
    left.mkdir(parents=True)
    with running(channel, "status") as run:
        run.read()
    assert not left.exists()


def test_it_ends_with_its_client_also_while_containerd_is_down(
    cluster: Cluster, channel: grpc.Channel
) -> None:
    with running(channel, "wait") as run:
        run.read("child is there")
        [pid] = [
            pid
            for pid in cluster.processes()["containerd"]
            if b"/system/" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        os.kill(pid, signal.SIGKILL)
    eventually("it is back", lambda: list_left(cluster))


def test_without_a_folder_for_its_layer_it_is_refused(cluster: Cluster, channel: grpc.Channel) -> None:
    folder = cluster.root() / "var/system/debug"
    folder.rmdir()
    folder.touch()
    try:
        with running(channel, "status") as run, pytest.raises(grpc.RpcError) as caught:
            run.read()
        assert "FAILED_PRECONDITION" in str(caught.value)
        assert "the container's root can't be mounted" in str(caught.value)
    finally:
        folder.unlink()


def test_what_cannot_run_is_said(channel: grpc.Channel) -> None:
    with running(channel, "nonsense") as run:
        assert run.read() == "nonsense can't be run: No such file or directory\n"
    assert run.code == 1
    with running(channel, image="registry.example/plain:1") as run:
        with pytest.raises(grpc.RpcError) as caught:
            run.read()
        assert "has no folder /nix" in str(caught.value)
