"""A check ends before what it checks is unmounted."""

import threading
from collections.abc import Callable

import trio

from talos.disks.volumes.scrubber import Scrubber
from talos.system.block.scrub import Findings


async def test_a_check_ends_when_its_mount_is_held_and_none_begins() -> None:
    begun, open_files = threading.Event(), [0]

    def scrub(target: str, check_stopped: Callable[[], None]) -> Findings:
        assert target == "/var"
        open_files[0] += 1
        begun.set()
        try:
            while True:
                check_stopped()
        finally:
            open_files[0] -= 1

    scrubber, results = Scrubber(scrub), list[Findings | None]()

    async def run() -> None:
        results.append(await scrubber.run("/var"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.to_thread.run_sync(begun.wait)
        async with scrubber.hold("/other"):
            assert open_files == [1], "another one goes on"
        async with scrubber.hold("/var"):
            assert open_files == [0]
            assert await scrubber.run("/var") is None
            assert open_files == [0]
    assert results == [None]
