"""Waking tasks."""

import trio
import trio.testing

from talos.system.wakeup import Signal, Wakeup


async def test_a_signal_wakes_all_waiting_tasks_and_none_later() -> None:
    signal, woken = Signal(), list[int]()

    async def wait(number: int) -> None:
        await signal.wait()
        woken.append(number)

    signal.notify()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, 1)
        nursery.start_soon(wait, 2)
        await trio.testing.wait_all_tasks_blocked()
        assert woken == []
        signal.notify()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(woken) == [1, 2]
        nursery.start_soon(wait, 3)
        await trio.testing.wait_all_tasks_blocked()
        assert len(woken) == 2
        signal.notify()


async def test_a_wakeup_is_remembered_once() -> None:
    wakeup = Wakeup()
    wakeup.set()
    wakeup.set()
    await wakeup.wait()
    with trio.move_on_after(0) as waiting:
        await wakeup.wait()
    assert waiting.cancelled_caught
    wakeup.set()
    wakeup.clear()
    with trio.move_on_after(0) as waiting:
        await wakeup.wait()
    assert waiting.cancelled_caught


async def test_what_is_forgotten_leaves_the_task_that_waits() -> None:
    wakeup = Wakeup()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wakeup.wait)
        await trio.testing.wait_all_tasks_blocked()
        wakeup.clear()
        wakeup.set()
