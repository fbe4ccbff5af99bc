from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio
from google.protobuf.message import Message

from talos.api.machine import machine_pb2 as pb
from talos.api.resource import config_pb2
from talos.config.check.validate import Mode
from talos.config.effective import machine as effective
from talos.config.read.loader import load
from talos.machined.controllers.config.acquire import Sources, acquire_config, acquire_kept
from talos.machined.controllers.config.machine_type import MachineTypeController
from talos.machined.node.config_store import publish_config
from talos.resource import ids
from talos.resource.changes import wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.kinds import MACHINE_CONFIG
from talos.resource.memory.state import MemoryState

HOST = "apiVersion: v1alpha1\nkind: EnvironmentConfig\nvariables: {a: b}\n"


@dataclass
class Boot:
    """One boot with a State of its own."""

    folder: Path
    platform: bytes = b""
    early: bytes = b""
    inline: bytes = b""
    state: MemoryState = field(default_factory=MemoryState)
    events: list[Message] = field(default_factory=list)
    forgotten: bool = False

    def _forget(self) -> None:
        self.forgotten = True

    async def run(self) -> bool:
        return await acquire_config(self.state, self.make_sources(), self.events.append)

    async def run_late(self) -> bool:
        """STATE was unlocked when all sources had been read."""
        return await acquire_kept(self.state, self.make_sources(), self.events.append)

    def make_sources(self) -> Sources:
        async def give(text: bytes) -> bytes:
            await trio.lowlevel.checkpoint()
            return text

        return Sources(
            state_dir=self.folder,
            embedded=self.folder / "embedded.yaml",
            load_early=partial(give, self.early),
            load_platform=partial(give, self.platform),
            load_inline=partial(give, self.inline),
            remove_platform_config=self._forget,
            mode=Mode.CONTAINER,
        )

    async def published(self) -> dict[str, bytes]:
        return {one.id: one.spec.yaml_marshalled for one in await self.state.list(MACHINE_CONFIG)}


async def test_nothing_is_there(tmp_path: Path) -> None:
    boot = Boot(tmp_path)
    assert not await boot.run()
    assert await boot.published() == {}
    assert boot.events == []


async def test_platforms_config_is_kept_and_published(tmp_path: Path, worker: str) -> None:
    first = Boot(tmp_path, worker.encode())
    assert await first.run()
    assert await first.published() == {"v1alpha1": worker.encode(), "persistent": worker.encode()}
    assert (tmp_path / "config.yaml").read_bytes() == worker.encode()
    assert (tmp_path / "config.yaml").stat().st_mode & 0o777 == 0o600
    assert first.forgotten
    second = Boot(tmp_path)
    assert await second.run()
    assert await second.published() == await first.published()


async def test_the_kept_config_comes_first(tmp_path: Path, worker: str, control_plane: str) -> None:
    (tmp_path / "config.yaml").write_text(worker)
    boot = Boot(tmp_path, control_plane.encode())
    assert await boot.run()
    assert (await boot.published())["v1alpha1"] == worker.encode()
    assert boot.forgotten


async def test_the_kept_config_may_come_late(tmp_path: Path, worker: str, control_plane: str) -> None:
    boot = Boot(tmp_path)
    assert not await boot.run()
    assert not await boot.run_late()
    (tmp_path / "config.yaml").write_text(worker)
    assert await boot.run_late()
    assert (await boot.published())["v1alpha1"] == worker.encode()
    (tmp_path / "config.yaml").write_text(control_plane)
    assert not await boot.run_late(), "a user may have brought another one"
    assert (await boot.published())["v1alpha1"] == worker.encode()


async def test_a_partial_config_alone_is_not_enough(tmp_path: Path) -> None:
    boot = Boot(tmp_path, HOST.encode())
    assert not await boot.run()
    assert await boot.published() == {"maintenance": HOST.encode()}
    assert not (tmp_path / "config.yaml").exists()


async def test_partial_configs_are_merged(tmp_path: Path, worker: str) -> None:
    (tmp_path / "config.yaml").write_text(HOST)
    boot = Boot(tmp_path, worker.encode())
    assert await boot.run()
    config = load((await boot.published())["v1alpha1"])
    assert "EnvironmentConfig" in {document.kind for document in config.documents}
    assert config.is_complete


async def test_sources_are_merged_in_their_order(tmp_path: Path, worker: str) -> None:
    (tmp_path / "embedded.yaml").write_text(HOST)
    late = worker.replace("type: worker", "type: worker\n    sysctls: {net.ipv4.ip_forward: '0'}")
    early = HOST.replace("a: b", "a: c, d: e")
    boot = Boot(tmp_path, early=early.encode(), inline=late.encode())
    assert await boot.run()
    config = load((await boot.published())["v1alpha1"])
    assert effective.environment(config) == {"a": "c", "d": "e"}
    assert effective.sysctls(config)["net.ipv4.ip_forward"] == "0"


async def test_a_complete_config_ends_the_search(tmp_path: Path, worker: str) -> None:
    boot = Boot(tmp_path, b"nonsense", early=worker.encode(), inline=b"nonsense")
    assert await boot.run()
    assert boot.events == []
    assert (await boot.published())["v1alpha1"] == worker.encode()


async def test_a_source_with_a_mistake_does_not_end_the_search(tmp_path: Path, worker: str) -> None:
    boot = Boot(tmp_path, b"version: v1alpha1\nmachin: {}\n", inline=worker.encode())
    assert await boot.run()
    assert len(boot.events) == 1


async def test_a_config_applied_meanwhile_wins(tmp_path: Path, worker: str) -> None:
    boot = Boot(tmp_path, HOST.encode(), inline=worker.encode())
    await publish_config(boot.state, ids.MACHINE_CONFIG, b"theirs")
    assert not await boot.run()
    assert await boot.published() == {"v1alpha1": b"theirs"}


async def test_broken_config_is_reported(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("a: [")
    boot = Boot(tmp_path, b"version: v1alpha1\nmachin: {}\n")
    assert not await boot.run()
    kept, brought = boot.events
    assert isinstance(kept, pb.ConfigLoadErrorEvent)
    assert "no valid YAML" in kept.error
    assert isinstance(brought, pb.ConfigLoadErrorEvent)
    assert brought.error == 'platform:2:1: machin: unknown key (did you mean "machine"?)'
    assert (tmp_path / "config.yaml").read_text() == "a: ["
    assert not boot.forgotten


async def test_invalid_config_is_reported(tmp_path: Path) -> None:
    boot = Boot(tmp_path, b"version: v1alpha1\nmachine: {type: worker}\n")
    assert not await boot.run()
    (event,) = boot.events
    assert isinstance(event, pb.ConfigValidationErrorEvent)
    assert "machine.ca: is missing" in event.error


async def test_kept_config_of_another_version_still_boots(tmp_path: Path, worker: str) -> None:
    (tmp_path / "config.yaml").write_text(worker.replace("EPHEMERAL", "FORMER"))
    boot = Boot(tmp_path)
    assert await boot.run()
    (event,) = boot.events
    assert isinstance(event, pb.ConfigValidationErrorEvent)


async def test_full_disk_does_not_keep_the_node_down(tmp_path: Path, worker: str) -> None:
    boot = Boot(tmp_path / "missing", worker.encode())
    assert await boot.run()
    (event,) = boot.events
    assert isinstance(event, pb.ConfigLoadErrorEvent)
    assert event.error == "the config can't be kept: No such file or directory"
    assert not boot.forgotten


async def test_machine_type_follows_the_config(tmp_path: Path, worker: str) -> None:
    boot = Boot(tmp_path, worker.encode())
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers_in, boot.state)
        await wait_for(
            boot.state,
            *ids.MACHINE_TYPE,
            lambda one: one.spec.machine_type == config_pb2.UNKNOWN,
        )
        await boot.run()
        await wait_for(
            boot.state,
            *ids.MACHINE_TYPE,
            lambda one: one.spec.machine_type == config_pb2.WORKER,
        )
        nursery.cancel_scope.cancel()


async def run_controllers_in(state: MemoryState, *, task_status: trio.TaskStatus[None]) -> None:
    await run_controllers(state, [MachineTypeController()], task_status=task_status)
