"""What daemons on a running node may not do, seen from the machine below it."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.harness.cluster import Cluster, eventually
from tests.node.test_rest import patch

from talos.process.daemons import (
    BY_NAME,
    DAEMONS,
    KMSD,
    KUBED,
    KUBELET_BUS,
    MACHINE_SOCKET,
    ROUTERD,
    UDEVD,
    DaemonSpec,
)
from talos.process.grants import load_grants
from talos.resource import kinds
from talos.system import kernel
from talos.system.process import run_command

RUNNING = [daemon for daemon in DAEMONS if not daemon.needs_devices and daemon is not KMSD]
"""kmsd runs where a volume has a key for it; a container has no such volume."""
FILTERED = "2"
DIAL = """
import json, os, socket, sys
from talos.system import kernel

root, uid, capabilities, paths = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4:]
directory = os.open(root, os.O_PATH | os.O_DIRECTORY)
kernel.set_keep_capabilities()
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
kernel.set_capabilities(frozenset(capabilities))
answering = []
for path in paths:
    try:
        found = os.open(path.lstrip("/"), os.O_PATH, dir_fd=directory)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"/proc/self/fd/{found}")
            client.settimeout(20)
            client.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
            answered = bool(client.recv(1))
    except (PermissionError, ConnectionError):
        continue
    if answered:
        answering.append(path)
print(json.dumps(answering))
"""

LIST = """
import asyncio, json, os, sys
import yaml  # needed later, when this folder may be closed to the uid
from talos.process.run import host
from talos.resource import kinds
from talos.resource.remote.state import RemoteState
from talos.resource.state import StateError
from talos.rpc.channel import open_channel
from talos.system.logging import Log

root, uid, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
directory = os.open(root, os.O_PATH | os.O_DIRECTORY)
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
found = os.open(path.lstrip("/"), os.O_PATH, dir_fd=directory)
listed = []

async def main(daemon):
    async with open_channel(daemon, f"/proc/self/fd/{found}") as transport:
        state = RemoteState(transport)
        for kind in kinds.REGISTRY.values():
            try:
                await state.list(kind)
            except StateError as error:
                assert "is not granted to" in str(error), error
            else:
                listed.append(kind.type)

asyncio.run(host(main, "test", Log(write=lambda line: None)))
print(json.dumps(listed))
"""


CACHE = "apiVersion: v1alpha1\nkind: ImageCacheConfig\n"
WITH_CACHE, WITHOUT_CACHE = CACHE + "local: {enabled: true}\n", CACHE + "$patch: delete\n"
BGP = "apiVersion: v1alpha1\nkind: BGPInstanceConfig\nname: a\n"
WITH_BGP, WITHOUT_BGP = BGP + "localASN: 65001\nrouterID: 10.0.0.1\n", BGP + "$patch: delete\n"
WITH_LOGD = "machine: {logging: {destinations: [{endpoint: 'tcp://127.0.0.1:9', format: json_lines}]}}\n"
WITHOUT_LOGD = "machine: {logging: {$patch: delete}}\n"


@pytest.fixture(autouse=True, scope="module")
def on_demand(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every daemon runs, also those that run while logs are sent, images are cached, and there is BGP."""
    folder = tmp_path_factory.mktemp("on-demand")
    (cluster.root() / "system/imagecache/disk/manifests").mkdir(parents=True, exist_ok=True)
    patch(cluster, folder, f"{WITH_LOGD}---\n{WITH_CACHE}---\n{WITH_BGP}")
    names = [daemon.name for daemon in RUNNING if daemon.on_demand]

    def run() -> None:
        services = cluster.services()
        assert [services.get(name, {}).get("HEALTH") for name in names] == ["OK"] * len(names)

    eventually("all run", run)
    yield
    patch(cluster, folder, f"{WITHOUT_LOGD}---\n{WITHOUT_CACHE}---\n{WITHOUT_BGP}")

    def have_ended() -> None:
        assert not set(names) & cluster.processes().keys()

    eventually("those on demand have ended", have_ended)


def status_of(pid: int) -> dict[str, list[str]]:
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return {line.split(":")[0]: line.split(":")[1].split() for line in text.splitlines()}


@pytest.mark.parametrize("daemon", RUNNING, ids=lambda daemon: daemon.name)
def test_a_daemon_is_not_root(cluster: Cluster, daemon: DaemonSpec) -> None:
    (pid,) = cluster.processes()[daemon.name]
    init = cluster.nodes[0].pid
    status = status_of(pid)
    mask = sum(1 << capability for capability in daemon.capabilities)
    assert status["Uid"] == status["Gid"] == [str(daemon.uid)] * 4
    assert status["Groups"] == []
    assert [int(status[key][0], 16) for key in ("CapPrm", "CapEff", "CapBnd")] == [mask] * 3
    assert [int(status[key][0], 16) for key in ("CapInh", "CapAmb")] == [0, 0]
    assert status["NoNewPrivs"] == ["1"]
    assert status["Seccomp"] == [FILTERED]
    for namespace in ("mnt", "ipc"):
        theirs, ours = (Path(f"/proc/{one}/ns/{namespace}").readlink() for one in (pid, init))
        assert theirs != ours, namespace


def find_answering(cluster: Cluster, uid: int, capabilities: Sequence[int] = ()) -> set[str]:
    """The sockets of our daemons that answer a uid, which sees the files of the whole node."""
    paths = [other.state_socket for other in RUNNING]
    paths += [other.socket for other in RUNNING if other.caller]
    arguments = [str(cluster.root()), str(uid), json.dumps(capabilities), MACHINE_SOCKET, *paths]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return set(json.loads(run_command([sys.executable, "-c", DIAL, *arguments], env=environment).stdout))


@pytest.mark.parametrize("daemon", RUNNING, ids=lambda daemon: daemon.name)
def test_a_uid_reaches_its_own_sockets_only(cluster: Cluster, daemon: DaemonSpec) -> None:
    own = {daemon.state_socket} | {other.socket for other in RUNNING if other.caller == daemon.name}
    own |= {daemon.socket} if daemon.caller else set()
    own |= {MACHINE_SOCKET} if daemon.name == "routerd" else set()
    assert find_answering(cluster, daemon.uid) == own


def test_sockets_that_are_found_past_all_permissions_do_not_answer(cluster: Cluster) -> None:
    """udevd may open whatever it finds: the servers look at who it is."""
    assert kernel.CAP_DAC_OVERRIDE in UDEVD.capabilities
    assert find_answering(cluster, UDEVD.uid, UDEVD.capabilities) == set()
    assert MACHINE_SOCKET in find_answering(cluster, ROUTERD.uid, UDEVD.capabilities)


@pytest.mark.parametrize("daemon", RUNNING, ids=lambda daemon: daemon.name)
def test_a_daemon_sees_the_sockets_it_uses_only(cluster: Cluster, daemon: DaemonSpec) -> None:
    (pid,) = cluster.processes()[daemon.name]
    view = Path(f"/proc/{pid}/root")
    found = {
        "/" + str((folder / name).relative_to(view))
        for top in ("run", "system/run")
        for folder, _, names in (view / top).walk()
        for name in names
        if (folder / name).is_socket()
    }
    expected = {daemon.state_socket} | {other.socket for other in RUNNING if other.caller == daemon.name}
    expected |= {daemon.socket} if daemon.caller else set()
    expected |= {MACHINE_SOCKET} if daemon is ROUTERD else set()
    # In kubed's folder, but below one that is kubed's alone.
    expected |= {KUBELET_BUS} if daemon in (KUBED, BY_NAME[KUBED.caller]) else set()
    assert found == expected


@pytest.mark.parametrize("daemon", RUNNING, ids=lambda daemon: daemon.name)
def test_a_uid_lists_what_its_daemon_is_granted(cluster: Cluster, daemon: DaemonSpec) -> None:
    program = [sys.executable, "-c", LIST, str(cluster.root()), str(daemon.uid), daemon.state_socket]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    listed = set(json.loads(run_command(program, env=environment).stdout))
    granted = load_grants()[daemon.name]
    whole = {name for (name, _), found in granted.ids.items() if None in found}
    whole &= {name for name, namespace in granted.ids if kinds.REGISTRY[name].namespace == namespace}
    assert listed == whole | granted.owners.keys()


def find_contained(cluster: Cluster, name: str) -> list[int]:
    """The first processes of containers of this name: each has a pid namespace, below that of its shim."""
    shims = {str(pid) for pid in cluster.processes().get("containerd-shim-runc-v2", [])}
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit():
                status = status_of(int(entry.name))
                if status["Name"] == [name] and status["PPid"][0] in shims:
                    found.append(int(entry.name))
    return found


def test_etcd_runs_under_a_filter_of_system_calls(cluster: Cluster) -> None:
    def check() -> int:
        found = find_contained(cluster, "etcd")
        assert len(found) == 1
        return found[0]

    status = status_of(eventually("etcd runs", check))
    assert status["Seccomp"] == [FILTERED]
    assert [int(status[key][0], 16) for key in ("CapPrm", "CapEff", "CapBnd")] == [0, 0, 0]


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What a process has open, and on which mount, by the number that the kernel gives each."""

    number: int
    target: str
    mount: int


def find_descriptors(pid: int) -> list[Descriptor]:
    """All but standard input and output; nothing of what ends or is closed meanwhile."""
    found: list[Descriptor] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                target = str(entry.readlink())
                info = Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text(encoding="ascii")
                mount = info.partition("mnt_id:")[2].split()[0]
                found.append(Descriptor(int(entry.name), target, int(mount)))
    return [descriptor for descriptor in found if descriptor.number > 2]


def find_mounts(pid: int) -> set[int]:
    """The numbers of the mounts that a process sees; none of one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return {int(line.split()[0]) for line in lines}


def test_no_descriptor_of_the_creator_reaches_the_node(cluster: Cluster) -> None:
    def is_inside(descriptor: Descriptor, mounts: set[int]) -> bool:
        """A file that was removed while it is open has a mount, but no path."""
        target = descriptor.target
        is_path = target.startswith("/")
        return not is_path or (cluster.root() / target[1:]).exists() or descriptor.mount in mounts

    def check() -> None:
        # What was opened or mounted between two checks is looked at again: what was inherited stays open.
        processes = cluster.processes()
        mounts = {mount for pids in processes.values() for pid in pids for mount in find_mounts(pid)}
        for name, pids in processes.items():
            for pid in pids:
                foreign = [found for found in find_descriptors(pid) if not is_inside(found, mounts)]
                assert not foreign, (name, foreign)

    eventually("what is open is the node's own", check)


def test_the_kernels_log_and_symbols_of_the_machine_below_are_hidden(cluster: Cluster) -> None:
    for name in ("kallsyms", "kmsg"):
        assert cluster.talosctl("read", f"/proc/{name}").stdout == ""
