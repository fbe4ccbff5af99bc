"""Snapshots of a cluster in memory: which member, when the next one, and what becomes of failures."""

import asyncio
import hashlib
import importlib
import io
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast, override

import pytest
from google.protobuf.message import Message

from talos.api.common.common_pb2 import Data
from talos.api.cosi.resource_pb2 import Resource
from talos.api.definitions.enums_pb2 import MachineType
from talos.api.machine import machine_pb2
from talos.api.rpc import Code, RpcError
from talos.config.values import Duration
from talos.fleet.calls import FleetCalls
from talos.resource import kinds
from talos.resource.kind import Kind
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.talosctl.output.age import encrypt
from talos.upgrade_controller.snapshots import take
from talos.upgrade_controller.snapshots.config import Snapshots, SnapshotsSection, open_destination
from talos.upgrade_controller.snapshots.folder import Folder
from talos.upgrade_controller.snapshots.schedule import Outcome, SnapshotSchedule
from talos.upgrade_controller.snapshots.take import find_members

AGE: Any = importlib.import_module("pyrage")
KEY = AGE.x25519.Identity.generate()
DATABASE = bytes(range(256)) * 4096
SNAPSHOT = DATABASE + hashlib.sha256(DATABASE).digest()
NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


def make_status(number: int, **more: Any) -> machine_pb2.EtcdMemberStatus:
    values: dict[str, Any] = {"member_id": number, "leader": 1, "raft_applied_index": 10_000, **more}
    return machine_pb2.EtcdMemberStatus(**values)


@dataclass(slots=True)
class Etcd(FleetCalls):
    """Three members, the first of which leads."""

    statuses: dict[str, machine_pb2.EtcdMemberStatus | None] = field(
        default_factory=lambda: {f"10.0.0.{number}": make_status(number) for number in (1, 2, 3)}
    )
    pieces: Sequence[bytes | None] = (SNAPSHOT[:500_000], b"", SNAPSHOT[500_000:])
    """What a member sends; None is an error."""
    calls: list[str] = field(default_factory=list[str])
    hangs: bool = False

    @override
    async def unary[R: Message](self, node: str, method: str, request: Any, reply: type[R]) -> R:
        assert method == "/machine.MachineService/EtcdStatus"
        if (status := self.statuses[node]) is None:
            raise RpcError(Code.UNAVAILABLE, f"{node} does not answer")
        messages = [machine_pb2.EtcdStatus(member_status=status)]
        return cast("R", machine_pb2.EtcdStatusResponse(messages=messages))

    @override
    async def specs[S: Message](self, node: str, kind: Kind[S]) -> Sequence[S]:
        assert (node, kind.type) == ("", kinds.MEMBER.type)
        members = [
            kinds.MEMBER.spec(hostname=f"cp-{one[-1]}", machine_type=MachineType.TYPE_CONTROL_PLANE)
            for one in self.statuses
        ]
        for member, address in zip(members, self.statuses, strict=True):
            member.addresses.add(ip=ip_address(address).packed)
        worker = kinds.MEMBER.spec(hostname="worker", machine_type=MachineType.TYPE_WORKER)
        worker.addresses.add(ip=ip_address("10.0.0.9").packed)
        return cast("Sequence[S]", [worker, *members])

    @override
    async def resources(self, node: str, kind: Kind[Message]) -> Sequence[Resource]:
        raise AssertionError

    @override
    @asynccontextmanager
    async def stream[R: Message](
        self, node: str, method: str, request: Any, reply: type[R]
    ) -> AsyncGenerator[AsyncIterator[R]]:
        assert method == "/machine.MachineService/EtcdSnapshot"
        self.calls.append(node)
        yield cast("AsyncIterator[R]", self._send())

    async def _send(self) -> AsyncGenerator[Data]:
        for piece in self.pieces:
            await asyncio.sleep(0)
            if piece is None:
                raise RpcError(Code.UNAVAILABLE, "the connection was closed")
            yield Data(bytes=piece)
        if self.hangs:
            await asyncio.Event().wait()


class World:
    """A schedule for a folder, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.etcd, self.folder, self.now = Etcd(), folder, NOON
        self.shown: list[dict[str, str]] = []
        self.outcomes: list[Outcome] = []
        section = SnapshotsSection(recipients=(str(KEY.to_public()),), keep=2, folder=str(folder))
        self.wanted = Snapshots(section=section, where="snapshots", folder=folder)
        self.schedule = self.make()

    def make(self) -> SnapshotSchedule:
        return SnapshotSchedule(
            open=open_destination,
            now=lambda: self.now,
            log=Log(write=lambda _: None),
            show=lambda: self.shown.append(self.schedule.status),
            report=self.outcomes.append,
        )

    def follow(self, after: timedelta = timedelta()) -> tuple[bool, dict[str, str]]:
        self.now += after
        is_well = asyncio.run(self.schedule.follow(self.wanted, lambda: self.etcd))
        return is_well, self.schedule.status

    @property
    def names(self) -> list[str]:
        return sorted(entry.name for entry in self.folder.iterdir())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_snapshot_is_for_the_owner_alone(world: World) -> None:
    is_well, status = world.follow()
    assert is_well, status
    name = "etcd-20261128T120000Z.snapshot.age"
    assert AGE.decrypt((world.folder / name).read_bytes(), [KEY]) == SNAPSHOT
    assert world.etcd.calls == ["10.0.0.2"], "a follower"
    assert [one["state"] for one in world.shown] == ["running", "current"]
    assert world.outcomes == [Outcome(is_taken=True, message=f"{name} of cp-2, 1.0 MB")]
    assert status == {
        "state": "current",
        "reason": "",
        "time": "2026-11-28T12:00:00+00:00",
        "name": name,
        "node": "cp-2",
        "size": "1.0 MB",
        "next": "2026-11-28T18:00:00+00:00",
    }


def test_the_next_one_is_due_after_the_interval(world: World) -> None:
    hour = timedelta(hours=1)
    for after in (hour * 0, hour * 5, hour, hour, hour * 5, hour * 6):
        assert world.follow(after)[0]
    assert len(world.etcd.calls) == 4
    assert world.names == ["etcd-20261129T000000Z.snapshot.age", "etcd-20261129T060000Z.snapshot.age"]
    started = world.make()
    started.status, world.schedule = dict(world.schedule.status), started
    world.follow(hour)
    assert len(world.etcd.calls) == 4, "another process goes on"
    world.follow(timedelta(days=-3))
    assert len(world.etcd.calls) == 5, "a clock that was wrong"


def test_the_member_to_call(world: World) -> None:
    def find() -> list[str]:
        return [one.node[-1] for one in asyncio.run(find_members(world.etcd))]

    statuses = world.etcd.statuses
    assert find() == ["2", "3", "1"]
    statuses["10.0.0.2"] = None
    assert find() == ["3", "1"]
    statuses["10.0.0.3"] = make_status(3, raft_applied_index=1000)
    assert find() == ["1", "3"], "one that lags behind"
    statuses["10.0.0.1"] = make_status(1, errors=["memberID:1 alarm:NOSPACE"])
    assert find() == ["3", "1"]
    statuses["10.0.0.3"] = make_status(3, is_learner=True)
    statuses["10.0.0.1"] = make_status(1, leader=0)
    with pytest.raises(UserError) as caught:
        find()
    text = "cp-1: has no leader; cp-2: 10.0.0.2 does not answer; cp-3: is a learner"
    assert f"snapshots: no member of etcd can be called: {text}" in str(caught.value)
    statuses.clear()
    with pytest.raises(UserError, match="discovery finds no control plane node"):
        find()


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        ([SNAPSHOT[:-1]], "cp-2: the snapshot is not whole"),
        ([], "cp-2: the snapshot is not whole"),
        ([SNAPSHOT[:200_000], b"x", SNAPSHOT[200_001:]], "cp-2: the snapshot is not whole"),
        ([SNAPSHOT[:500_000], None], "the connection was closed"),
    ],
)
def test_what_is_not_whole_is_not_kept(world: World, pieces: Any, reason: str) -> None:
    world.etcd.pieces = pieces
    is_well, status = world.follow()
    assert (is_well, status["state"], status["time"], world.names) == (False, "error", "", [])
    assert status["reason"].startswith(reason), status
    assert world.outcomes == [Outcome(is_taken=False, message=status["reason"])]


def test_failures_are_tried_again_later_and_later_and_elsewhere(world: World) -> None:
    world.follow()
    good, world.etcd.pieces = world.etcd.pieces, [None]
    minute, waited = timedelta(minutes=1), list[int]()
    world.now += timedelta(hours=6)
    for _ in range(8):
        assert not world.follow()[0]
        following = datetime.fromisoformat(world.schedule.status["next"])
        waited.append((following - world.now) // minute)
        assert not world.follow(following - world.now - timedelta(seconds=1))[0]
        world.now = following
    assert waited == [1, 2, 4, 8, 16, 32, 60, 60]
    assert [node[-1] for node in world.etcd.calls] == ["2", *"23123123"]
    assert world.schedule.status["time"] == "2026-11-28T12:00:00+00:00", "the last good one"
    world.etcd.pieces = good
    is_well, status = world.follow()
    assert (is_well, status["state"], status["reason"]) == (True, "current", "")
    assert datetime.fromisoformat(status["time"]) == world.now


def test_what_can_not_be_removed_is_no_reason_for_another_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Folder, name: str) -> None:
        raise UserError("Permission denied", where=name)

    monkeypatch.setattr(Folder, "remove", refuse)
    interval = timedelta(hours=6)
    assert [world.follow(interval)[0] for _ in range(3)] == [True, True, False]
    assert world.schedule.status["reason"].startswith("old snapshots stay: etcd-")
    assert not world.follow(interval / 2)[0]
    assert len(world.etcd.calls) == 3
    monkeypatch.undo()
    assert world.follow(interval / 2)[0]
    assert (len(world.names), world.schedule.status["reason"]) == (2, "")


def test_another_setting_is_tried_at_once(world: World) -> None:
    there = world.wanted
    world.wanted = replace(there, folder=world.folder / "not mounted")
    is_well, status = world.follow()
    assert not is_well
    where = f"snapshots.folder: {world.folder / 'not mounted'}: No such file or directory"
    assert status["reason"].startswith(where), status
    world.wanted = there
    assert world.follow()[0]


def test_a_member_that_sends_nothing_is_left(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(take, "PIECE_TIMEOUT", 0.01)
    world.etcd.hangs = True
    is_well, status = world.follow()
    assert (is_well, world.names) == (False, [])
    assert status["reason"].startswith("cp-2: sent nothing for 0.01 s")


def test_a_snapshot_as_a_whole_has_a_limit(world: World) -> None:
    there, world.etcd.hangs = world.wanted, True
    world.wanted = replace(there, section=replace(there.section, timeout=Duration("50ms")))
    is_well, status = world.follow()
    assert (is_well, world.names) == (False, [])
    assert status["reason"].startswith("cp-2: the snapshot is not whole after 0.05 s (look at the network")
    world.wanted, world.etcd.hangs = there, False
    assert world.follow()[0]


def test_ending_in_the_middle_leaves_nothing(world: World) -> None:
    world.etcd.hangs = True

    async def run() -> None:
        task = asyncio.create_task(world.schedule.follow(world.wanted, lambda: world.etcd))
        while not world.names:  # noqa: ASYNC110 - a folder
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert world.names == []


def test_without_the_setting_nothing_is_shown(world: World) -> None:
    world.follow()
    assert asyncio.run(world.schedule.follow(None, lambda: world.etcd))
    assert (world.shown[-1], len(world.etcd.calls)) == ({}, 1)


def test_memory_does_not_grow_with_the_size() -> None:
    class Zeros(io.BytesIO):
        left = 1 << 26

        @override
        def read(self, size: int | None = -1, /) -> bytes:
            assert size
            assert 0 < size <= 1 << 20
            self.left -= size
            return bytes(size if self.left > 0 else 0)

    class Sink(io.BytesIO):
        total = 0

        @override
        def write(self, data: Any, /) -> int:
            assert len(data) <= 1 << 17
            self.total += len(data)
            return len(data)

    sink = Sink()
    encrypt(Zeros(), sink, [str(KEY.to_public())], where="recipients")
    assert sink.total > 1 << 25
