"""The controller runtime, seen through small controllers."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import ClassVar

import pytest
import trio
import trio.testing

from talos.api.definitions.network_pb2 import AddressStatusSpec, HostnameStatusSpec
from talos.resource import changes, ids
from talos.resource.changes import add_finalizer, modify, remove_finalizer, teardown_and_destroy, wait_for
from talos.resource.controller.activity import Activities
from talos.resource.controller.controller import (
    Controller,
    ControllerRuntime,
    Input,
    InputStrength,
    Output,
    Reconciler,
    UndeclaredAccessError,
)
from talos.resource.controller.runtime import check_controllers, dependencies, run_controllers
from talos.resource.kinds import ADDRESS_STATUS, HOSTNAME_STATUS, LINK_STATUS, RESOLVER_STATUS
from talos.resource.memory.state import MemoryState
from talos.resource.resource import Phase, make_resource
from talos.resource.state import NotFoundError, OwnerConflictError, PhaseConflictError, State
from talos.system.errors import UserError


class Rounds(Reconciler):
    """Counts its rounds and does in each what the test wants."""

    name: ClassVar[str] = "test.RoundsController"

    def __init__(
        self,
        *inputs: Input,
        outputs: tuple[Output, ...] = (),
        action: Callable[[ControllerRuntime, int], object] | None = None,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.rounds = 0
        self.times: list[float] = []
        self._action = action

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        self.rounds += 1
        self.times.append(trio.current_time())
        if self._action is not None:
            result = self._action(runtime, self.rounds)
            if hasattr(result, "__await__"):
                await result  # pyright: ignore[reportGeneralTypeIssues]


@asynccontextmanager
async def running(state: State, *controllers: Controller) -> AsyncGenerator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, controllers)
        await settle()
        yield
        nursery.cancel_scope.cancel()


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked()


async def put(state: State, id: str = "a", link: str = "eth0") -> None:
    def change(spec: AddressStatusSpec) -> None:
        spec.link_name = link

    await modify(state, ADDRESS_STATUS, id, change)


def name_host(spec: HostnameStatusSpec) -> None:
    spec.hostname = "host"


@pytest.fixture
def memory() -> MemoryState:
    return MemoryState()


async def test_one_round_at_the_start_and_one_per_burst(memory: MemoryState) -> None:
    controller = Rounds(Input(ADDRESS_STATUS))
    async with running(memory, controller):
        assert controller.rounds == 1
        for number in range(20):
            await put(memory, str(number))
        await settle()
        assert controller.rounds == 2
        await put(memory)
        await settle()
        assert controller.rounds == 3


async def test_a_change_during_a_round_makes_another_one(memory: MemoryState) -> None:
    gate = trio.Event()

    async def act(*_: object) -> None:
        await gate.wait()

    controller = Rounds(Input(ADDRESS_STATUS), action=act)
    async with running(memory, controller):
        await put(memory)
        await settle()
        assert controller.rounds == 1
        gate.set()
        await settle()
        assert controller.rounds == 2


async def test_an_input_of_one_id_ignores_the_others(memory: MemoryState) -> None:
    controller = Rounds(Input(ADDRESS_STATUS, id="a"))
    async with running(memory, controller):
        await put(memory, "b")
        await settle()
        assert controller.rounds == 1
        await put(memory, "a")
        await settle()
        assert controller.rounds == 2


async def test_put_writes_a_spec_only_when_it_differs(memory: MemoryState) -> None:
    written: list[int] = []

    async def act(runtime: ControllerRuntime, round: int) -> None:
        hostname = HostnameStatusSpec(hostname="one" if round < 3 else "two", domainname="example.org")
        resource = await runtime.put(*ids.HOSTNAME_STATUS, hostname, labels={"round": str(round // 3)})
        assert resource.spec == hostname
        written.append(resource.metadata.version)

    controller = Rounds(Input(ADDRESS_STATUS), outputs=(Output(HOSTNAME_STATUS),), action=act)
    async with running(memory, controller):
        for _ in range(3):
            await put(memory, str(len(written)))
            await settle()
    assert written == [1, 1, 2, 2]
    stored = await memory.get(*ids.HOSTNAME_STATUS)
    assert stored.metadata.owner == controller.name
    assert dict(stored.metadata.labels) == {"round": "1"}


async def test_put_is_refused_for_what_is_no_output(memory: MemoryState) -> None:
    refused: list[UndeclaredAccessError] = []

    async def act(runtime: ControllerRuntime, _round: int) -> None:
        with pytest.raises(UndeclaredAccessError) as error:
            await runtime.put(*ids.HOSTNAME_STATUS, HostnameStatusSpec(hostname="one"))
        refused.append(error.value)

    async with running(memory, Rounds(Input(*ids.HOSTNAME_STATUS), action=act)):
        assert "writes HostnameStatuses.net.talos.dev(network/hostname)" in str(refused[0])


async def test_put_of_the_same_spec_by_another_owner_is_refused(memory: MemoryState) -> None:
    hostname = HostnameStatusSpec(hostname="one")
    await changes.put(memory, *ids.HOSTNAME_STATUS, hostname, owner="first")
    await changes.put(memory, *ids.HOSTNAME_STATUS, hostname, owner="first")
    assert (await memory.get(*ids.HOSTNAME_STATUS)).metadata.version == 1
    with pytest.raises(OwnerConflictError):
        await changes.put(memory, *ids.HOSTNAME_STATUS, hostname, owner="second")
    await memory.teardown(*ids.HOSTNAME_STATUS, owner="first")
    with pytest.raises(PhaseConflictError):
        await changes.put(memory, *ids.HOSTNAME_STATUS, hostname, owner="first")


async def test_an_input_of_another_namespace(memory: MemoryState) -> None:
    controller = Rounds(Input(ADDRESS_STATUS, namespace="network-config"))
    async with running(memory, controller):
        await put(memory)
        await settle()
        assert controller.rounds == 1
        await memory.create(
            make_resource(ADDRESS_STATUS, "b", AddressStatusSpec(), namespace="network-config")
        )
        await settle()
        assert controller.rounds == 2


async def test_destroy_ready_input_wakes_only_at_the_end(memory: MemoryState) -> None:
    controller = Rounds(Input(ADDRESS_STATUS, strength=InputStrength.DESTROY_READY))
    async with running(memory, controller):
        await put(memory)
        await add_finalizer(memory, ADDRESS_STATUS, "a", "other")
        await memory.teardown(ADDRESS_STATUS, "a")
        await settle()
        assert controller.rounds == 1
        await remove_finalizer(memory, ADDRESS_STATUS, "a", "other")
        await settle()
        assert controller.rounds == 2


async def test_failures_are_retried_ever_later(
    memory: MemoryState, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    del autojump_clock

    def act(_: ControllerRuntime, count: int) -> None:
        if count <= 11:
            raise ValueError("no luck")

    controller = Rounds(action=act)
    with caplog.at_level(logging.ERROR):
        async with running(memory, controller):
            await trio.sleep(400)
    waits = [
        round(later - earlier, 3)
        for earlier, later in zip(controller.times, controller.times[1:], strict=False)
    ]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60.0]
    assert "test.RoundsController failed, next try in 0.1 s: no luck" in caplog.messages[0]
    assert caplog.records[0].exc_info


async def test_what_fails_for_a_day_is_retried_still(
    memory: MemoryState, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    del autojump_clock

    def act(_: ControllerRuntime, __: int) -> None:
        raise UserError("no such image")

    controller = Rounds(action=act)
    with caplog.at_level(logging.CRITICAL):
        async with running(memory, controller):
            await trio.sleep(24 * 3600)
    assert controller.rounds > 24 * 60


async def test_a_refusal_from_a_nursery_is_one_line(
    memory: MemoryState, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    del autojump_clock

    def act(_: ControllerRuntime, __: int) -> None:
        raise ExceptionGroup("nursery", [UserError("nobody answers", where="10.5.0.2")])

    with caplog.at_level(logging.ERROR):
        async with running(memory, Rounds(action=act)):
            await trio.sleep(0.05)
    assert "next try in 0.1 s: 10.5.0.2: nobody answers" in caplog.messages[0]
    assert not caplog.records[0].exc_info


async def test_success_resets_the_wait(memory: MemoryState, autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock

    def act(runtime: ControllerRuntime, count: int) -> None:
        if count in (1, 2, 4):
            raise ValueError("no luck")
        if count == 3:
            runtime.queue_reconcile()

    controller = Rounds(action=act)
    async with running(memory, controller):
        await trio.sleep(10)
    assert [round(time - controller.times[0], 3) for time in controller.times] == [0, 0.1, 0.3, 0.3, 0.4]


async def test_a_changed_input_shortens_a_long_wait(
    memory: MemoryState, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    failing = True

    def act(_: ControllerRuntime, __: int) -> None:
        if failing:
            raise ValueError("no luck")

    controller = Rounds(Input(ADDRESS_STATUS), action=act)
    async with running(memory, controller):
        await trio.sleep(60)
        failing = False
        count = controller.rounds
        await put(memory)
        await trio.sleep(0.01)
        assert controller.rounds == count + 1


async def test_one_failing_controller_stops_no_other(memory: MemoryState) -> None:
    class Failing(Controller):
        name = "test.FailingController"

        async def run(self, runtime: ControllerRuntime) -> None:
            raise ExceptionGroup("two", [ValueError("one"), KeyError("two")])

    controller = Rounds(Input(ADDRESS_STATUS))
    async with running(memory, Failing(), controller):
        await put(memory)
        await settle()
        assert controller.rounds == 2


async def test_finished_controllers_end_the_runtime(memory: MemoryState) -> None:
    class Done(Controller):
        name = "test.DoneController"
        inputs = (Input(ADDRESS_STATUS),)

        async def run(self, runtime: ControllerRuntime) -> None:
            del runtime

    await run_controllers(memory, [Done()])


async def test_rounds_and_failures_are_counted(memory: MemoryState) -> None:
    def act(_runtime: ControllerRuntime, number: int) -> None:
        if number == 2:
            raise UserError("no")

    activities: Activities = {}
    controller = Rounds(Input(ADDRESS_STATUS), action=act)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(run_controllers, memory, [controller], activities=activities))
        await settle()
        assert memory.open_watches[ADDRESS_STATUS.type] == 1
        (name, activity), *others = activities.items()
        assert (name, others, activity.runs, activity.failures) == (controller.name, [], 1, 0)
        spent = activity.seconds
        assert spent > 0
        await settle()
        assert activity.seconds == spent
        await put(memory)
        await settle()
        assert (activity.runs, activity.failures) == (2, 1)
        assert activity.seconds > spent
        nursery.cancel_scope.cancel()
    assert memory.open_watches[ADDRESS_STATUS.type] == 0


async def test_undeclared_access_is_refused(memory: MemoryState) -> None:
    refused: list[str] = []

    async def act(runtime: ControllerRuntime, _: int) -> None:
        for attempt in (
            runtime.get(LINK_STATUS, "x"),
            runtime.list(LINK_STATUS),
            runtime.list(ADDRESS_STATUS),
            runtime.get(ADDRESS_STATUS, "b"),
            runtime.get(ADDRESS_STATUS, "a", namespace="network-config"),
            runtime.modify(ADDRESS_STATUS, "a", lambda spec: None),
            runtime.teardown(ADDRESS_STATUS, "a"),
            runtime.destroy(ADDRESS_STATUS, "a"),
            runtime.remove(ADDRESS_STATUS, "a"),
            runtime.add_finalizer(ADDRESS_STATUS, "a"),
            runtime.remove_finalizer(ADDRESS_STATUS, "a"),
        ):
            with pytest.raises(UndeclaredAccessError) as error:
                await attempt
            refused.append(str(error.value))
        await runtime.get(ADDRESS_STATUS, "a")
        await runtime.list(HOSTNAME_STATUS)

    await put(memory)
    controller = Rounds(Input(ADDRESS_STATUS, id="a"), outputs=(Output(HOSTNAME_STATUS),), action=act)
    async with running(memory, controller):
        assert len(refused) == 11
    assert refused[0] == (
        "test.RoundsController reads LinkStatuses.net.talos.dev(network/x), which is not declared as an input"
    )


async def test_outputs_belong_to_the_controller(memory: MemoryState) -> None:
    async def act(runtime: ControllerRuntime, _: int) -> None:
        await runtime.modify(HOSTNAME_STATUS, "h", name_host, labels={"from": "test"})

    async with running(memory, Rounds(outputs=(Output(HOSTNAME_STATUS),), action=act)):
        metadata = (await memory.get(HOSTNAME_STATUS, "h")).metadata
        assert (metadata.owner, metadata.labels, metadata.version) == (
            "test.RoundsController",
            {"from": "test"},
            1,
        )


async def test_untouched_outputs_are_removed(memory: MemoryState) -> None:
    await modify(memory, HOSTNAME_STATUS, "foreign", name_host, owner="other")

    async def act(runtime: ControllerRuntime, count: int) -> None:
        async with runtime.track_outputs():
            await runtime.modify(HOSTNAME_STATUS, "always", name_host)
            if count == 1:
                await runtime.modify(HOSTNAME_STATUS, "once", name_host)
                await runtime.modify(HOSTNAME_STATUS, "once", name_host, namespace="network-config")

    controller = Rounds(Input(ADDRESS_STATUS), outputs=(Output(HOSTNAME_STATUS, shared=True),), action=act)
    async with running(memory, controller):
        assert len(await memory.list(HOSTNAME_STATUS)) == 3
        await put(memory)
        await settle()
        assert [item.id for item in await memory.list(HOSTNAME_STATUS)] == ["always", "foreign"]
        assert await memory.list(HOSTNAME_STATUS, namespace="network-config") == []


async def test_nothing_is_removed_after_a_failed_round(memory: MemoryState) -> None:
    async def act(runtime: ControllerRuntime, count: int) -> None:
        async with runtime.track_outputs():
            if count == 2:
                raise ValueError("no luck")
            await runtime.modify(HOSTNAME_STATUS, "h", name_host)

    controller = Rounds(Input(ADDRESS_STATUS), outputs=(Output(HOSTNAME_STATUS),), action=act)
    async with running(memory, controller):
        await put(memory)
        await settle()
        assert controller.rounds == 2
        assert await memory.get(HOSTNAME_STATUS, "h")


async def test_a_held_output_is_removed_when_it_is_let_go_and_can_come_back(
    memory: MemoryState, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    is_wanted = True

    async def act(runtime: ControllerRuntime, _: int) -> None:
        async with runtime.track_outputs():
            if is_wanted:
                await runtime.modify(HOSTNAME_STATUS, "h", name_host)

    controller = Rounds(Input(ADDRESS_STATUS), outputs=(Output(HOSTNAME_STATUS),), action=act)
    async with running(memory, controller):
        await add_finalizer(memory, HOSTNAME_STATUS, "h", "reader")
        is_wanted = False
        await put(memory, "1")
        ending = await wait_for(
            memory, HOSTNAME_STATUS, "h", lambda item: item.metadata.phase is Phase.TEARING_DOWN
        )
        is_wanted = True
        await put(memory, "2")
        await trio.sleep(5)
        await remove_finalizer(memory, HOSTNAME_STATUS, "h", "reader")
        await trio.sleep(5)
        fresh = await memory.get(HOSTNAME_STATUS, "h")
        assert fresh.metadata.phase is Phase.RUNNING
        assert fresh.metadata.version == 1
        assert fresh.metadata.created > ending.metadata.created


async def test_a_strong_input_is_held_until_let_go(memory: MemoryState) -> None:
    async def act(runtime: ControllerRuntime, _: int) -> None:
        for item in await runtime.list(ADDRESS_STATUS):
            if item.metadata.phase is Phase.RUNNING:
                await runtime.add_finalizer(ADDRESS_STATUS, item.id)
            elif runtime.name in item.metadata.finalizers:
                await runtime.remove_finalizer(ADDRESS_STATUS, item.id)

    await put(memory)
    async with running(memory, Rounds(Input(ADDRESS_STATUS, strength=InputStrength.STRONG), action=act)):
        assert (await memory.get(ADDRESS_STATUS, "a")).metadata.finalizers == ("test.RoundsController",)
        await teardown_and_destroy(memory, ADDRESS_STATUS, "a")
        with pytest.raises(NotFoundError):
            await memory.get(ADDRESS_STATUS, "a")


async def test_controllers_that_cant_live_together_are_refused() -> None:
    class First(Controller):
        name = "test.FirstController"
        outputs = (Output(HOSTNAME_STATUS, shared=True),)

    class Second(Controller):
        name = "test.SecondController"
        outputs = (Output(HOSTNAME_STATUS),)

    with pytest.raises(ValueError, match=r"exclusively so by test.SecondController"):
        await run_controllers(MemoryState(), [First(), Second()])
    with pytest.raises(ValueError, match=r"2 controllers are called test.FirstController"):
        check_controllers([First(), First()])


async def test_controllers_work_in_a_chain(memory: MemoryState) -> None:
    class Names(Reconciler):
        name = "test.NamesController"
        inputs = (Input(ADDRESS_STATUS),)
        outputs = (Output(HOSTNAME_STATUS),)

        async def reconcile(self, runtime: ControllerRuntime) -> None:
            addresses = await runtime.list(ADDRESS_STATUS)

            def change(spec: HostnameStatusSpec) -> None:
                spec.hostname = "-".join(item.id for item in addresses)

            await runtime.modify(HOSTNAME_STATUS, "h", change)

    last = Rounds(Input(HOSTNAME_STATUS))
    async with running(memory, Names(), last):
        await put(memory, "a")
        await put(memory, "b")
        found = await wait_for(memory, HOSTNAME_STATUS, "h", lambda item: item.spec.hostname == "a-b")
        assert found.metadata.owner == "test.NamesController"


def test_edges_name_inputs_and_outputs() -> None:
    controller = Rounds(
        Input(ADDRESS_STATUS, strength=InputStrength.STRONG, id="a"),
        Input(LINK_STATUS, namespace="network-config"),
        Input(RESOLVER_STATUS, strength=InputStrength.DESTROY_READY),
        outputs=(Output(HOSTNAME_STATUS), Output(RESOLVER_STATUS, shared=True)),
    )
    edges = [
        (edge.edge_type, edge.resource_namespace, edge.resource_type, edge.resource_id)
        for edge in dependencies([controller])
    ]
    assert edges == [
        (0, "", HOSTNAME_STATUS.type, ""),
        (3, "", RESOLVER_STATUS.type, ""),
        (1, "network", ADDRESS_STATUS.type, "a"),
        (2, "network-config", LINK_STATUS.type, ""),
        (4, "network", RESOLVER_STATUS.type, ""),
    ]
