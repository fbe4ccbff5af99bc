"""A test from its machines' first start to its end; once more when an emulated processor stood still.

QEMU's emulation of several processors loses an event of a processor's timer now and then. The kernel reports
that on the console, and the machine crawls from then on. Such a run shows nothing about what is tested, so it
is repeated, from new disks and once. A failure without the kernel's report is the test's.
"""

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from driver.failure import StalledMachineError, VmTestError
from driver.script import Script
from driver.world import World

MAX_ATTEMPTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a test ended. ``stalls`` are the kernel's reports for which it, or a machine, was started anew."""

    passed: bool
    stalls: tuple[str, ...] = ()
    saved: Path | None = None
    """The folder with the machines that it has saved."""

    def report(self) -> str:
        """What the file of a test that has passed holds."""
        return "".join(["passed\n", *(f"started anew after a stall: {stall}\n" for stall in self.stalls)])


def run_test(script: Script, make_world: Callable[[int], World], source: Path) -> Outcome:
    """Run the test in a world of its own for each attempt."""
    stalls: list[str] = []
    while True:
        world = make_world(len(stalls) + 1)
        try:
            if _run(script, world, source):
                stalls += [machine.started_anew for machine in world.values() if machine.started_anew]
                return Outcome(passed=True, stalls=tuple(stalls), saved=world.saved)
            stall = _find_stall(world)
            if not stall or len(stalls) + 1 == MAX_ATTEMPTS:
                world.show(f"FAILED {script.name}, {len(stalls)} times started anew")
                return Outcome(passed=False, stalls=tuple(stalls))
            stalls.append(stall)
            world.show(f"STARTED ANEW {script.name}: the emulated processor stood still: {stall}")
        finally:
            world.close()


def _find_stall(world: World) -> str:
    for machine in world.values():
        if machine.console.stalls:
            return f"{machine.name}: {machine.console.stalls[0]}"
    return ""


def _run(script: Script, world: World, source: Path) -> bool:
    began = time.monotonic()
    try:
        script.test(world)
        world.check()
    except StalledMachineError as error:
        world.show(f"{script.name}: {error}")
        return False
    except VmTestError as error:
        world.show(f"FAILED {script.name}: {error}")
        for frame in traceback.extract_tb(error.__traceback__):
            if Path(frame.filename).is_relative_to(source):
                world.show(f"  line {frame.lineno} of the test: {frame.line}")
        return False
    except Exception:  # noqa: BLE001 - the machines' state belongs to the report of any failure
        world.show(f"FAILED {script.name}\n{traceback.format_exc()}")
        for machine in world.values():
            world.show(machine.diagnose())
        return False
    world.show(f"passed {script.name} in {time.monotonic() - began:.0f} s")
    return True
