"""Whatever happens in whatever order: who follows a watch sees what a list shows."""

import random
from collections.abc import Sequence

import pytest
import trio
import trio.testing
from tests.unit.resource.loopback import LoopbackTransport

from talos.api.definitions.network_pb2 import AddressStatusSpec
from talos.resource.changes import add_finalizer, destroy_if_present, modify, remove_finalizer
from talos.resource.kinds import ADDRESS_STATUS
from talos.resource.memory.state import MemoryState
from talos.resource.query import ALL, LabelTerm, Operator, Query
from talos.resource.remote.service import make_state_service
from talos.resource.remote.state import RemoteState
from talos.resource.resource import Phase, Resource
from talos.resource.state import Event, EventType, PhaseConflictError, State, WatchOptions

STEPS = 600
IDS = [f"id{number}" for number in range(12)]
IN_ZONE = Query(labels=((LabelTerm(key="zone", operator=Operator.EQUAL, values=("x",)),),))


class Follower:
    """The contents by the events of a watch; refuses impossible events."""

    def __init__(self, state: State, query: Query, *, aggregated: bool) -> None:
        self.state = state
        self.query = query
        self.options = WatchOptions(bootstrap=True, aggregated=aggregated)
        self.view: dict[str, Resource[AddressStatusSpec]] = {}

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        async with self.state.watch(ADDRESS_STATUS, query=self.query, options=self.options) as events:
            task_status.started()
            async for batch in events:
                assert self.options.aggregated or len(batch) == 1
                self.apply(batch)

    def apply(self, batch: Sequence[Event[AddressStatusSpec]]) -> None:
        for event in batch:
            resource = event.resource
            if event.type is EventType.BOOTSTRAPPED:
                continue
            assert resource is not None, event
            match event.type:
                case EventType.CREATED:
                    assert resource.id not in self.view
                    self.view[resource.id] = resource
                case EventType.UPDATED:
                    assert event.old == self.view[resource.id]
                    self.view[resource.id] = resource
                case EventType.DESTROYED:
                    del self.view[resource.id]
                case _:
                    raise AssertionError(event)

    async def check(self) -> None:
        assert [self.view[name] for name in sorted(self.view)] == await self.state.list(
            ADDRESS_STATUS, query=self.query
        )


async def do_something(state: State, dice: random.Random) -> None:
    name = dice.choice(IDS)
    present = {item.id: item for item in await state.list(ADDRESS_STATUS)}

    def change(spec: AddressStatusSpec) -> None:
        spec.link_name = f"eth{dice.randrange(3)}"

    match dice.randrange(6):
        case 0 | 1 | 2:
            try:
                await modify(state, ADDRESS_STATUS, name, change, labels={"zone": dice.choice("xy")})
            except PhaseConflictError:
                assert present[name].metadata.phase is Phase.TEARING_DOWN
        case 3:
            destroyed = await destroy_if_present(state, ADDRESS_STATUS, name)
            assert destroyed or present[name].metadata.finalizers
        case 4 if name in present and present[name].metadata.phase is Phase.RUNNING:
            await add_finalizer(state, ADDRESS_STATUS, name, "test")
        case _:
            await remove_finalizer(state, ADDRESS_STATUS, name, "test")


@pytest.mark.parametrize("seed", range(8))
async def test_every_follower_ends_up_with_the_list(
    seed: int, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    dice = random.Random(seed)
    memory = MemoryState()
    transport = LoopbackTransport(make_state_service(memory))
    followers = [
        Follower(state, query, aggregated=aggregated)
        for state in (memory, RemoteState(transport))
        for query in (ALL, IN_ZONE)
        for aggregated in (True, False)
    ]
    async with trio.open_nursery() as nursery:
        started = 0
        for step in range(STEPS):
            if step % (STEPS // len(followers)) == 0:
                # Each begins in the middle of what happens.
                await nursery.start(followers[started].run)
                started += 1
            await do_something(dice.choice([memory, RemoteState(transport)]), dice)
            if dice.randrange(10) == 0:
                await trio.testing.wait_all_tasks_blocked()
            if dice.randrange(50) == 0:
                transport.break_streams()
        # Longer than a broken stream waits before it is opened again.
        await trio.sleep(60)
        for follower in followers:
            await follower.check()
        assert started == len(followers)
        nursery.cancel_scope.cancel()
