"""Nodes are upgraded and go back, by both calls; whatever fails ends in the old version, with the reason."""

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.harness.availability import ETCD_GAP, sampling_nodes, writing_to_etcd
from tests.harness.cluster import Cluster, check_services, eventually, running_cluster
from tests.harness.credentials import API_PORT, authority_of, credentials_of
from tests.harness.elf import make_end
from tests.harness.etcd import end_earlier_upgrades, end_upgrade, find_etcd, take_upgrade_lock
from tests.harness.machine import remains
from tests.harness.releases import FIRST, Releases
from tests.harness.squashfs import Tree, make_squashfs

from talos.api.machine import machine_pb2
from talos.provision.cluster import NodeInfo, Role
from talos.provision.store import ClusterFolder
from talos.system.process import CommandResult
from talos.upgrade.slots.folder import SlotFolder

UPGRADE_TIMEOUT = 300.0  # seconds
"""For one upgrade with its verdict."""
API_TIMEOUT = 10.0  # seconds
"""For one call to a node that may be down."""
CONFIG = "/system/state/config.yaml"
SYSTEM: Tree = {**{name: {} for name in ("dev", "proc", "sys", "system", "var")}, "usr": {"install": {}}}
"""Where the launcher mounts something."""


@pytest.fixture(scope="module")
def cluster(releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three members of etcd and three workers; after the tests, nothing of them is left."""
    directory = tmp_path_factory.mktemp("clusters")
    images, stamp = releases.images, releases.stamp()
    with running_cluster(directory, controlplanes=3, workers=3, images=images, stamp=stamp) as running:
        folder = ClusterFolder(running.info.directory)
        yield running
    eventually("nothing is left behind", lambda: check_clean(folder))


def check_clean(folder: ClusterFolder) -> None:
    """Nothing of a cluster may be left on the machine."""
    left = remains(folder)
    assert not left, left


def list_nodes(cluster: Cluster, role: Role) -> list[NodeInfo]:
    """The nodes of a role."""
    return [node for node in cluster.nodes if node.role is role]


def find_node(cluster: Cluster, name: str) -> NodeInfo:
    """A node as it is now."""
    return next(node for node in cluster.nodes if node.name == name)


def call_node(cluster: Cluster, node: NodeInfo, *argv: str) -> str:
    """What talosctl prints when it calls a node directly."""
    address = str(node.address)
    return cluster.talosctl("-e", address, "-n", address, *argv, seconds=UPGRADE_TIMEOUT).stdout


def read_version(cluster: Cluster, node: NodeInfo) -> str:
    """The version that a node runs, and the slot."""
    server = call_node(cluster, node, "version", "--short").split("Server:")[1]
    tag = next(line.split()[1] for line in server.splitlines() if "Tag:" in line)
    cmdline = call_node(cluster, node, "get", "kernelcmdline", "-o", "yaml")
    return f"{tag} in {cmdline.split('BOOT_IMAGE=/')[1][0]}"


def find_slots(cluster: Cluster, node: NodeInfo) -> SlotFolder:
    """What a node is started from."""
    return SlotFolder(ClusterFolder(cluster.info.directory).slots(node.name))


def upgrade(cluster: Cluster, node: NodeInfo, image: str, *argv: str) -> CommandResult:
    """Upgrade a node and wait for the verdict. The way to it leads over the first node."""
    command = ("-n", str(node.address), "upgrade", "--image", image, *argv)
    return cluster.talosctl(*command, check=False, seconds=UPGRADE_TIMEOUT)


def upgrade_staged(cluster: Cluster, node: NodeInfo, image: str) -> str:
    """Have the older call write the slot while services run; the actor id."""
    with grpc.secure_channel(
        f"{node.address}:{API_PORT}", credentials_of(authority_of(cluster), "os:admin")
    ) as channel:
        call = channel.unary_unary(
            "/machine.MachineService/Upgrade",
            request_serializer=machine_pb2.UpgradeRequest.SerializeToString,
            response_deserializer=machine_pb2.UpgradeResponse.FromString,
        )
        reply = call(machine_pb2.UpgradeRequest(image=image, stage=True), timeout=UPGRADE_TIMEOUT)
    return reply.messages[0].actor_id


def check_blessed(cluster: Cluster, node: NodeInfo, version: str) -> None:
    """Assert that a node runs a version as its default."""
    assert read_version(cluster, node) == version
    assert find_slots(cluster, node).read()[1] == version[-1], "it is on trial"


def diagnose(cluster: Cluster, node: NodeInfo) -> str:
    """A node's diagnostics."""
    return call_node(cluster, node, "get", "diagnostics", "-o", "yaml")


def read_slots(cluster: Cluster, node: NodeInfo) -> dict[str, bytes]:
    """The content of a node's slots, with META."""
    files = find_slots(cluster, node).path.rglob("*")
    return {str(path): path.read_bytes() for path in files if path.is_file()}


@contextmanager
def watch_trial(cluster: Cluster, node: NodeInfo, harm: Callable[[NodeInfo], None]) -> Generator[None]:
    """Do harm to the node again and again from its next start until the one after that."""
    is_over, record = threading.Event(), ClusterFolder(cluster.info.directory).record

    def sample() -> None:
        pids, now, written = [node.pid], node, 0
        while not is_over.is_set() and len(pids) < 3:
            # To read the record takes a third of a processor at this rate, a look at its time nothing.
            if (last := record.stat().st_mtime_ns) != written:
                now, written = find_node(cluster, node.name), last
            if now.pid and now.pid != pids[-1]:
                pids.append(now.pid)
            if now.pid and len(pids) == 2:
                with suppress(ProcessLookupError, FileNotFoundError):
                    harm(now)
            time.sleep(0.05)

    with ThreadPoolExecutor(1) as pool:
        sampling = pool.submit(sample)
        try:
            yield
        finally:
            is_over.set()
            sampling.result()


@pytest.fixture(scope="module")
def stalled(cluster: Cluster, releases: Releases) -> Iterator[list[Future[CommandResult]]]:
    """Upgrades that take their time, while other tests run: apid hangs in the first, PID 1 in the second."""
    _, second, third = list_nodes(cluster, Role.WORKER)
    image = releases.make("v1.15.5")

    def stop_apid(trial: NodeInfo) -> None:
        for pid in cluster.processes(trial).get("apid", []):
            os.kill(pid, signal.SIGSTOP)

    def stop_init(trial: NodeInfo) -> None:
        os.kill(trial.pid, signal.SIGSTOP)

    def run(node: NodeInfo, harm: Callable[[NodeInfo], None]) -> CommandResult:
        with watch_trial(cluster, node, harm):
            return upgrade(cluster, node, image)

    with ThreadPoolExecutor(2) as pool:
        yield [pool.submit(run, second, stop_apid), pool.submit(run, third, stop_init)]


@pytest.mark.usefixtures("stalled")
def test_what_is_refused_leaves_the_node_as_it_is(
    cluster: Cluster, releases: Releases, tmp_path: Path
) -> None:
    node, squashfs = list_nodes(cluster, Role.WORKER)[0], tmp_path / "squashfs"
    squashfs.write_bytes(b"hsqs" * 1024)
    before = read_slots(cluster, node)
    foreign = Ed25519PrivateKey.generate()
    for version, reason, image in (
        ("v1.15.21", "is not signed", releases.make("v1.15.21", squashfs=squashfs, signed=False)),
        ("v1.15.22", "none of the 1 keys", releases.make("v1.15.22", squashfs=squashfs, key=foreign)),
        ("v1.15.23", "has the digest", releases.make("v1.15.23", squashfs=squashfs, is_altered=True)),
        ("v1.15.24", "is for arm64", releases.make("v1.15.24", squashfs=squashfs, architecture="arm64")),
        (
            "v1.15.25",
            "lacks what this machine uses: config.",
            releases.make("v1.15.25", squashfs=squashfs, features=["ab-slots"]),
        ),
        ("v1.17.0", "versions are skipped", releases.make("v1.17.0", squashfs=squashfs)),
    ):
        for argv in ((), ("--legacy",)):
            result = upgrade(cluster, node, image, *argv)
            assert result.returncode, f"{version} was accepted {argv}"
            assert reason in result.stderr, f"{version} {argv}: {result.stderr}"
    assert read_slots(cluster, node) == before
    assert read_version(cluster, node) == f"{FIRST} in A"


@pytest.mark.usefixtures("stalled")
def test_the_control_plane_is_upgraded_node_by_node(cluster: Cluster, releases: Releases) -> None:
    nodes = list_nodes(cluster, Role.CONTROL_PLANE)
    image = releases.make("v1.15.1")
    with writing_to_etcd(cluster, nodes) as gaps, sampling_nodes(nodes) as samples:
        for node, call in zip(nodes, ("lifecycle", "legacy", "staged"), strict=True):
            match call:
                case "lifecycle":
                    upgrade_without_lock(cluster, node, nodes[-1], image)
                case "legacy":
                    result = upgrade(cluster, node, image, "--legacy")
                    assert result.returncode == 0, result.stderr
                    assert "v1.15.1 is the default from now on" in result.stderr
                case _:
                    assert upgrade_staged(cluster, node, image)
            eventually(f"{node.name} runs it", lambda at=node: check_blessed(cluster, at, "v1.15.1 in B"))
            eventually("its services are well", lambda at=node: check_services(cluster, str(at.address)))
    assert max(gaps) < ETCD_GAP, f"etcd took no write for {max(gaps):.1f} s"
    assert len(samples.largest_outage()) == 1, f"down at a time: {samples.largest_outage()}"
    _, *others = list_nodes(cluster, Role.CONTROL_PLANE)  # they have other processes by now
    # The last one gives it back a moment after its release is the default.
    take_upgrade_lock(cluster, others[0])
    refused = cluster.talosctl("-n", str(nodes[0].address), "rollback", check=False)
    assert f"{others[0].name} is being upgraded and holds the lock" in refused.stderr, refused.stderr
    end_upgrade(cluster, others[0])
    # A rollback is a rescue: without a quorum no member is called, and it goes on.
    with suspended(*map(find_etcd, others)):
        call_node(cluster, nodes[0], "rollback")
    eventually("the first is back", lambda: check_blessed(cluster, nodes[0], f"{FIRST} in A"))
    call_node(cluster, nodes[1], "reboot")
    assert read_version(cluster, nodes[1]) == "v1.15.1 in B"


def upgrade_without_lock(cluster: Cluster, node: NodeInfo, other: NodeInfo, image: str) -> None:
    """Install a release, lose the lock, as after a while, and reboot: that waits for the new holder."""
    result = upgrade(cluster, node, image, "--no-reboot")
    assert result.returncode == 0, result.stderr
    end_earlier_upgrades(cluster, node)
    take_upgrade_lock(cluster, other)
    waits = f"waiting for up to 30 s: {other.name} is being upgraded and holds the lock"
    with ThreadPoolExecutor(1) as pool:
        rebooting = pool.submit(call_node, cluster, node, "reboot")
        try:
            eventually("the reboot waits", lambda: _assert_in(waits, cluster.consoles()[node.name]))
        finally:
            end_upgrade(cluster, other)
        rebooting.result(UPGRADE_TIMEOUT)


def _assert_in(part: str, text: str) -> None:
    assert part in text, text[-2000:]


@contextmanager
def suspended(*pids: int) -> Generator[None]:
    """Stop processes for a while."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.usefixtures("stalled")
def test_a_system_that_does_not_start_or_dies_is_reverted(
    cluster: Cluster, releases: Releases, tmp_path: Path
) -> None:
    node = list_nodes(cluster, Role.WORKER)[0]
    config = call_node(cluster, node, "read", CONFIG)
    squashfs = tmp_path / "squashfs"
    squashfs.write_bytes(b"hsqs" * 102_400)
    result = upgrade(cluster, node, releases.make("v1.15.3", squashfs=squashfs))
    assert result.returncode, "talosctl takes a reverted upgrade for a success"
    assert "did not start: its system image can't be started" in result.stderr, result.stderr
    assert "did not start" in diagnose(cluster, node)

    squashfs.write_bytes(make_squashfs({**SYSTEM, "sbin": {"init": make_end(3)}}))
    result = upgrade(cluster, node, releases.make("v1.15.4", squashfs=squashfs))
    assert result.returncode, "talosctl takes a reverted upgrade for a success"
    assert "did not start: its PID 1 ended with exit code 3" in result.stderr, result.stderr
    assert "upgrade-reverted" in diagnose(cluster, node)
    assert "the upgrade to v1.15.4 was reverted" in cluster.consoles()[node.name]
    assert read_version(cluster, node) == f"{FIRST} in A"
    assert call_node(cluster, node, "read", CONFIG) == config
    folders = sorted(path.name for path in find_slots(cluster, node).path.iterdir() if path.is_dir())
    assert folders == ["A", "B"], "its slots take more room than two systems need"


@pytest.mark.usefixtures("stalled")
def test_the_extensions_of_a_release_are_layers_below_its_system(
    cluster: Cluster, releases: Releases, tmp_path: Path
) -> None:
    node, squashfs = list_nodes(cluster, Role.WORKER)[0], tmp_path / "squashfs"
    # What a layer has of the system is not seen: the system lies on top.
    own = call_node(cluster, node, "read", "/etc/hostname")
    extensions: dict[str, Tree] = {
        name: {"etc": {"hostname": b"taken"}, "usr": {"local": {"share": {name: {"text": name.encode()}}}}}
        for name in ("first", "second")
    }
    result = upgrade(cluster, node, releases.make("v1.15.6", extensions=extensions))
    assert result.returncode == 0, result.stderr
    assert read_version(cluster, node) == "v1.15.6 in B"
    listed = call_node(cluster, node, "get", "extensions", "-o", "yaml")
    assert listed.index("image: 000.first.sqsh") < listed.index("image: 001.second.sqsh")
    for name in extensions:
        assert call_node(cluster, node, "read", f"/usr/local/share/{name}/text") == name
    assert call_node(cluster, node, "read", "/etc/hostname") == own

    squashfs.write_bytes(b"hsqs" * 1024)
    result = upgrade(cluster, node, releases.make("v1.15.7", squashfs=squashfs))
    assert "lacks what this machine uses: extension.first, extension.second" in result.stderr, result.stderr
    altered = find_slots(cluster, node).path / "B/extensions/001.second.sqsh"
    altered.write_bytes(b"no squashfs")
    call_node(cluster, node, "reboot")
    assert read_version(cluster, node) == f"{FIRST} in A", "the other slot is started"


@pytest.mark.soak  # two trials, one of which lasts as long as a self-check may
@pytest.mark.usefixtures("stalled")
def test_a_check_of_the_config_decides_about_a_trial(cluster: Cluster, releases: Releases) -> None:
    node, image = list_nodes(cluster, Role.WORKER)[0], releases.make("v1.15.8")
    reason = 'trial check "door": 127.0.0.1:1: Connection refused'

    patch_check(cluster, node, port=1)
    result = upgrade(cluster, node, image)
    assert result.returncode, "a check that fails already before the upgrade is left out"
    assert f"fails already before the upgrade: {reason}" in result.stderr, result.stderr
    assert read_version(cluster, node) == f"{FIRST} in A"

    patch_check(cluster, node, port=API_PORT)
    with watch_trial(cluster, node, lambda _: patch_check(cluster, node, port=1, check=False)):
        result = upgrade(cluster, node, image)
    assert result.returncode, "talosctl takes a reverted upgrade for a success"
    assert f"self-check: after 120 s: {reason}" in result.stderr, result.stderr

    def check_reverted() -> None:
        assert read_version(cluster, node) == f"{FIRST} in A"
        assert reason in diagnose(cluster, node)

    eventually("the node is back, and shows why", check_reverted, seconds=UPGRADE_TIMEOUT)
    assert "the upgrade to v1.15.8 was reverted" in cluster.consoles()[node.name]
    assert "trial:" not in call_node(cluster, node, "get", "probespecs"), "at rest nothing is probed"
    assert "connectivityReady: true" in call_node(cluster, node, "get", "networkstatus", "-o", "yaml")

    patch_check(cluster, node, port=API_PORT)
    result = upgrade(cluster, node, image)
    assert result.returncode == 0, result.stderr
    check_blessed(cluster, node, "v1.15.8 in B")


def patch_check(cluster: Cluster, node: NodeInfo, *, port: int, check: bool = True) -> None:
    """Have a trial require a connection to one of the node's own ports, and an expression that holds."""
    header = "apiVersion: v1alpha1\nkind: TrialCheckConfig\nname:"
    patch = f"{header} door\ntcp: {{endpoint: '127.0.0.1:{port}'}}\n"
    patch += f'---\n{header} services\ncel: services["apid"].healthy\n'
    address = str(node.address)
    argv = ("-e", address, "-n", address, "patch", "machineconfig", "--patch", patch)
    cluster.talosctl(*argv, check=check, seconds=UPGRADE_TIMEOUT if check else API_TIMEOUT)


def test_a_failed_self_check_is_reverted(cluster: Cluster, stalled: list[Future[CommandResult]]) -> None:
    node = list_nodes(cluster, Role.WORKER)[1]
    result = stalled[0].result(UPGRADE_TIMEOUT)
    assert result.returncode, "talosctl takes a reverted upgrade for a success"
    assert "self-check: after 120 s: service apid" in result.stderr, result.stderr
    assert "self-check: after 120 s: service apid" in diagnose(cluster, node)
    assert read_version(cluster, node) == f"{FIRST} in A"


def test_a_system_that_hangs_is_reverted(cluster: Cluster, stalled: list[Future[CommandResult]]) -> None:
    node = list_nodes(cluster, Role.WORKER)[2]
    result = stalled[1].result(UPGRADE_TIMEOUT)
    assert result.returncode, "talosctl takes a reverted upgrade for a success"
    assert "it hung, and its launcher killed it" in result.stderr, result.stderr
    assert read_version(cluster, node) == f"{FIRST} in A"
