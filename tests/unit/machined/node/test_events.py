"""The event log: ids, tails, following, falling behind."""

import trio
import trio.lowlevel

from talos.api.machine.machine_pb2 import PhaseEvent
from talos.machined.node.events import EventLog, XidGenerator, encode


def names(events: list[PhaseEvent]) -> list[str]:
    return [event.phase for event in events]


async def take(log: EventLog, count: int, **options: object) -> list[str]:
    found: list[str] = []
    async with log.follow(**options) as events:  # pyright: ignore[reportArgumentType]
        async for event in events:
            assert isinstance(event.payload, PhaseEvent)
            found.append(event.payload.phase)
            if len(found) == count:
                break
    return found


def fill(log: EventLog, count: int) -> list[str]:
    return [log.publish(PhaseEvent(phase=str(n)), actor_id=f"actor-{n % 2}").id for n in range(count)]


async def test_ids_are_xids_that_sort() -> None:
    ids = [XidGenerator().make(now) for now in (0, 1, 2**31)]
    assert all(len(made) == 20 for made in ids)
    assert ids == sorted(ids)
    assert encode(bytes(12)) == "0" * 20
    # the example of the format's inventor
    assert encode(bytes.fromhex("4d88e15b60f486e428412dc9")) == "9m4e2mr0ui3e8a215n4g"


async def test_tail() -> None:
    log = EventLog()
    fill(log, 5)
    assert await take(log, 2, tail=2) == ["3", "4"]
    assert await take(log, 5, tail=-1) == ["0", "1", "2", "3", "4"]
    assert await take(log, 5, tail=99) == ["0", "1", "2", "3", "4"]


async def test_after_an_id_by_actor_and_by_time() -> None:
    now = 100.0
    log = EventLog(now=lambda: now)
    ids = fill(log, 4)
    assert await take(log, 2, after_id=ids[1]) == ["2", "3"]
    assert await take(log, 2, tail=-1, actor_id="actor-1") == ["1", "3"]
    now = 200.0
    log.publish(PhaseEvent(phase="late"))
    assert await take(log, 1, seconds=50) == ["late"]
    assert await take(log, 1, after_id=encode((150).to_bytes(4) + bytes(8))) == ["late"]


async def test_following_misses_nothing() -> None:
    log = EventLog()
    fill(log, 3)
    async with log.follow() as events, trio.open_nursery() as nursery:

        async def publish() -> None:
            for n in range(100):
                log.publish(PhaseEvent(phase=f"new-{n}"))
                await trio.lowlevel.checkpoint()

        nursery.start_soon(publish)
        for n in range(100):
            event = await anext(events)
            assert event.payload == PhaseEvent(phase=f"new-{n}")


async def test_a_slow_follower_misses_the_oldest_only() -> None:
    log = EventLog(capacity=10)
    async with log.follow() as events:
        fill(log, 25)
        found = [(await anext(events)).payload for _ in range(10)]
        assert names(found) == [str(n) for n in range(15, 25)]  # pyright: ignore[reportArgumentType]
