"""The controller on a cluster in memory: window, switch, selection, failures that are not repeated."""

import asyncio
import importlib
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.harness.limits import REAL_TIMEOUT
from tests.unit.fleet.cluster import NEW, OLD, SNAPSHOT, TICK, Cluster, make_cluster
from tests.unit.fleet.jumping import JumpingLoop

from talos.system.errors import UserError
from talos.system.logging import Log
from talos.upgrade.release.manifest import ReleaseManifest
from talos.upgrade.release.signature import format_public
from talos.upgrade_controller.channel import ChannelRelease
from talos.upgrade_controller.config import Settings
from talos.upgrade_controller.controller import UpgradeController
from talos.upgrade_controller.main import main
from talos.upgrade_controller.policy_source import FilePolicySource
from talos.upgrade_controller.status import read_status

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)  # a Saturday


def run[T](work: Coroutine[Any, Any, T]) -> T:
    """Run it in virtual time."""
    return asyncio.run(work, loop_factory=JumpingLoop)


class World:
    """A cluster, a channel and a controller's folder."""

    def __init__(self, folder: Path) -> None:
        self.cluster: Cluster = make_cluster()
        self.path = folder / "config.yaml"
        self.key = Ed25519PrivateKey.generate().public_key()
        (folder / "release.pub").write_bytes(format_public(self.key))
        self.config: dict[str, Any] = {
            "channel": {"image": "registry.test/installer:stable", "keys": ["release.pub"]},
            "talosconfig": "talosconfig",
            "status": "status.json",
        }
        self.digest = "sha256:1"
        self.now = NOON
        self.error = ""
        self.lines: list[str] = []

    def set(self, **more: Any) -> None:
        """Change the config's file."""
        self.config |= more
        self.path.write_text(yaml.safe_dump(self.config))

    def _find(self, settings: Settings) -> ChannelRelease:
        assert settings.keys == (self.key,)
        if self.error:
            raise UserError(self.error, where="channel")
        manifest = ReleaseManifest(
            version=NEW, commit="c0ffee", architecture="amd64", minimum_version=OLD, features=(), files={}
        )
        return ChannelRelease(
            manifest=manifest, image=f"registry.test/installer@{self.digest}", digest=self.digest
        )

    def make(self) -> UpgradeController:
        return UpgradeController(
            place=FilePolicySource(self.path),
            connect=lambda _: self.cluster,
            log=Log(write=self.lines.append),
            find_release=self._find,
            now=lambda: self.now,
        )

    def once(self, **more: Any) -> tuple[bool, dict[str, Any]]:
        """Run once with a changed config; whether it succeeded, and the status."""
        self.set(**more)
        self.cluster.log.clear()
        is_well = run(self.make().run_once())
        return is_well, read_status(self.path.parent / "status.json")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_cluster_is_moved_to_the_release(world: World) -> None:
    is_well, status = world.once(parallel=2)
    assert is_well, status
    assert world.cluster.done("reboot") == list(world.cluster.nodes)
    assert status["state"] == "current"
    assert status["release"] == {
        "version": NEW,
        "commit": "c0ffee",
        "image": "registry.test/installer@sha256:1",
    }
    assert [(node["version"], node["step"]) for node in status["nodes"]] == [(NEW, "done")] * 5
    assert status["upgrade"]["succeeded"] is True
    is_well, status = world.once()
    assert (is_well, status["state"], world.cluster.log) == (True, "current", [])
    assert status["upgrade"]["succeeded"] is True, "the last one stays"


WINDOW = [{"days": ["sat"], "from": "13:00", "to": "14:00"}]


@pytest.mark.parametrize(
    ("more", "state", "reason"),
    [
        ({"windows": WINDOW}, "waiting", "the maintenance window is closed; node-1"),
        ({"paused": True}, "paused", "paused; node-1"),
    ],
)
def test_nothing_begins_when_it_may_not(world: World, more: dict[str, Any], state: str, reason: str) -> None:
    is_well, status = world.once(**more)
    assert is_well
    assert world.cluster.log == []
    assert (status["state"], status["nodes"][0]["version"]) == (state, OLD)
    assert reason in status["reason"]


@pytest.mark.parametrize("state", ["paused", "waiting"])
def test_what_begins_next_obeys_at_once(world: World, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Cluster._reboot  # pyright: ignore[reportPrivateUsage]

    def reboot(cluster: Cluster, node: Any) -> None:
        original(cluster, node)
        if state == "paused":
            world.set(paused=True)
        else:
            world.now = NOON.replace(hour=15)

    monkeypatch.setattr(Cluster, "_reboot", reboot)
    window = [{"from": "11:00", "to": "14:00"}]
    is_well, status = world.once(windows=window)
    assert is_well
    assert world.cluster.done("reboot") == ["10.0.0.1"]
    assert (status["state"], status["held"]) == (state, {})
    monkeypatch.undo()
    world.now = NOON
    is_well, status = world.once(paused=False)
    assert (is_well, status["state"]) == (True, "current")
    assert world.cluster.done("reboot") == list(world.cluster.nodes)[1:]


def test_a_release_that_failed_is_not_tried_again(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.cluster.nodes["10.0.0.2"].fails = "trial"
    is_well, status = world.once()
    assert not is_well
    assert status["state"] == "held"
    assert "node-2" in status["held"]["reason"]
    world.cluster.nodes["10.0.0.2"].fails = ""
    is_well, status = world.once()
    assert (is_well, status["state"], world.cluster.log) == (False, "held", [])
    assert main(["retry", "--config", str(world.path)]) == 0
    is_well, status = world.once()
    assert (is_well, status["state"]) == (True, "current")
    assert main(["retry", "--config", str(world.path)]) == 1
    assert "no release is held back" in capsys.readouterr().err


def test_another_release_is_tried_though_one_failed(world: World) -> None:
    world.cluster.nodes["10.0.0.1"].fails = "install"
    assert world.once()[1]["state"] == "held"
    world.cluster.nodes["10.0.0.1"].fails = ""
    world.digest = "sha256:2"
    assert world.once()[1]["state"] == "current"


def test_what_the_release_is_not_to_blame_for_is_tried_again(world: World) -> None:
    world.cluster.nodes["10.0.0.2"].fails = "etcd"
    is_well, status = world.once()
    assert (is_well, status["state"], status["held"]) == (False, "error", {})
    assert "refused: etcd member cp-3 is not healthy" in status["reason"]
    world.cluster.nodes["10.0.0.2"].fails = ""
    assert world.once()[1]["state"] == "current"


def test_it_does_not_begin_while_a_node_is_not_well(world: World) -> None:
    world.cluster.nodes["10.0.0.4"].unhealthy = "kubelet"
    is_well, status = world.once()
    assert (is_well, status["state"], world.cluster.log) == (True, "waiting", [])
    assert status["reason"].startswith("node-4 is unhealthy: service kubelet is Preparing; node-1")
    assert world.once(allowUnhealthy=True)[1]["state"] == "current"


def test_selected_nodes(world: World) -> None:
    _, status = world.once(nodes={"roles": ["worker"], "exclude": ["*-5"]})
    assert world.cluster.done("reboot") == ["10.0.0.4"]
    assert [node["hostname"] for node in status["nodes"]] == ["node-4"]
    is_well, status = world.once(nodes={"hostnames": ["other-*"]})
    assert (is_well, status["state"]) == (False, "error")
    assert "no member of the cluster is selected" in status["reason"]


@pytest.mark.parametrize(
    ("chosen", "hostnames"),
    [
        ({"matchLabels": {"zone": "a"}}, ["node-4"]),
        ({"matchLabels": {"zone": "a", "gpu": ""}}, []),
        ({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "c"]}]}, ["node-4"]),
        ({"matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["b"]}]}, ["node-4", "node-5"]),
        ({"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, ["node-5"]),
        ({"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}, ["node-4"]),
    ],
)
def test_nodes_selected_by_their_labels(world: World, chosen: dict[str, Any], hostnames: list[str]) -> None:
    world.cluster.nodes["10.0.0.4"].labels = {"zone": "a"}
    world.cluster.nodes["10.0.0.5"].labels = {"zone": "b", "gpu": ""}
    _, status = world.once(nodes={"roles": ["worker"], **chosen}, paused=True)
    assert [node["hostname"] for node in status.get("nodes", ())] == hostnames
    assert status["state"] == ("paused" if hostnames else "error")


def test_nodes_whose_labels_are_not_known_are_not_passed_over(world: World) -> None:
    world.cluster.nodes["10.0.0.4"].labels = {"zone": "a"}
    _, status = world.once(nodes={"roles": ["worker"], "matchLabels": {"zone": "a"}})
    assert (status["state"], world.cluster.log) == ("error", [])
    assert "nodes: node-5 has not registered with Kubernetes" in status["reason"]


def test_what_can_not_be_used_is_said(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.error = "the registry answers 503"
    is_well, status = world.once()
    assert (is_well, status["state"]) == (False, "error")
    assert "channel: the registry answers 503" in status["reason"]
    world.error = ""
    world.cluster.nodes["10.0.0.3"].is_up = False
    is_well, status = world.once()
    assert (is_well, world.cluster.log) == (False, [])
    assert "10.0.0.3 does not answer" in status["reason"]
    world.path.write_text("paused: yes please\n")
    assert run(world.make().run_once()) is False
    assert "config.yaml:1:9: paused" in "".join(world.lines)
    assert main(["check", "--config", str(world.path)]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_the_switch_is_noticed_before_the_next_check(world: World) -> None:
    world.set(paused=True, interval="1h0m0s")

    async def follow() -> None:
        running = asyncio.create_task(world.make().run())
        while "paused" not in "".join(world.lines):  # noqa: ASYNC110 - it writes a log
            await asyncio.sleep(TICK)
        world.set(paused=False)
        async with asyncio.timeout(600):
            while len(world.cluster.done("reboot")) < len(world.cluster.nodes):  # noqa: ASYNC110 - as above
                await asyncio.sleep(TICK)
        running.cancel()

    run(follow())


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_the_status_is_shown(world: World, capsys: pytest.CaptureFixture[str], form: str) -> None:
    world.set()
    assert main(["status", "--config", str(world.path)]) == 1
    assert "has not been written yet" in capsys.readouterr().err
    world.once()
    assert main(["status", "--config", str(world.path), "-o", form]) == 0
    output = capsys.readouterr().out
    if form == "table":
        assert output.splitlines()[1].split()[:3] == ["current", "registry.test/installer:stable", NEW]
    else:
        assert yaml.safe_load(output)["state"] == "current"
    (world.path.parent / "status.json").write_text("garbage")
    assert main(["status", "--config", str(world.path)]) == 1
    assert "is no status of this program" in capsys.readouterr().err


def test_snapshots_are_taken_beside_upgrades(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    age: Any = importlib.import_module("pyrage")
    key = age.x25519.Identity.generate()
    folder = world.path.parent / "backups"
    world.cluster.nodes["10.0.0.1"].fails = "trial"
    assert world.once()[1]["state"] == "held"
    world.set(snapshots={"recipients": [str(key.to_public())], "folder": "backups"})
    assert run(world.make().snapshot_once()) is False
    status = read_status(world.path.parent / "status.json")
    assert (status["state"], status["held"]["version"], status["snapshot"]["state"]) == ("held", NEW, "error")
    assert f"{folder}: No such file or directory" in status["snapshot"]["reason"]
    folder.mkdir()
    world.cluster.log.clear()
    assert run(world.make().run_all_once()) is False, "the release is held back"
    assert world.cluster.log == [("snapshot", "10.0.0.2")]
    status = read_status(world.path.parent / "status.json")
    assert (status["state"], status["snapshot"]["state"]) == ("held", "current")
    (path,) = folder.iterdir()
    assert age.decrypt(path.read_bytes(), [key]) == SNAPSHOT
    assert run(world.make().snapshot_once()) is True
    assert world.cluster.log == [("snapshot", "10.0.0.2")], "the next one is not due"
    assert main(["status", "--config", str(world.path)]) == 0
    assert path.name in capsys.readouterr().out


def test_snapshots_alone(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    age: Any = importlib.import_module("pyrage")
    recipient = str(age.x25519.Identity.generate().to_public())
    del world.config["channel"]
    (world.path.parent / "backups").mkdir()
    world.set(snapshots={"recipients": [recipient], "folder": "backups"})
    assert run(world.make().run_all_once()) is True
    status = read_status(world.path.parent / "status.json")
    assert (status["state"], status["channel"], status["snapshot"]["state"]) == ("idle", "", "current")
    assert [verb for verb, _ in world.cluster.log] == ["snapshot"]
    assert main(["status", "--config", str(world.path)]) == 0
    assert "idle" in capsys.readouterr().out
    del world.config["snapshots"]
    assert world.once()[0] is False
    assert "channel: is missing" in "".join(world.lines)


def test_snapshots_go_on_while_the_channel_is_down(world: World) -> None:
    age: Any = importlib.import_module("pyrage")
    recipient = str(age.x25519.Identity.generate().to_public())
    world.error = "the registry answers 503"
    (world.path.parent / "backups").mkdir()
    world.set(snapshots={"recipients": [recipient], "folder": "backups", "interval": "1m0s"})

    async def follow() -> None:
        running = asyncio.create_task(world.make().run())
        for number in range(1, 4):
            async with asyncio.timeout(REAL_TIMEOUT):
                while len(world.cluster.done("snapshot")) < number:  # noqa: ASYNC110 - it writes a log
                    await asyncio.sleep(TICK)
            world.now += timedelta(minutes=1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run(follow())
    status = read_status(world.path.parent / "status.json")
    assert (status["state"], "503" in status["reason"]) == ("error", True)
