"""The same by the kernel's own figures: a storm of programs takes all memory that others need, too."""

import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
from tests.unit.machined.controllers.running import running

from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.machined.controllers.runtime.oom import STALL, WINDOW, OOMController
from talos.provision.host import cgroups
from talos.provision.host.cgroups import Hierarchy, NodeLimits
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.pressure import PressureTrigger
from talos.system.process import start_command

pytestmark = pytest.mark.root
MEMORY = 128 << 20
"""Bytes for all programs of this test together, whatever they want."""
TOP = "talos-unit-oom"
SYSTEM, HOGS, PAYING = "system/daemon", "kubepods/besteffort/podhogs", "kubepods/podpaying"
CONFIG = b"""\
version: v1alpha1
machine: {type: worker}
---
apiVersion: v1alpha1
kind: OOMConfig
cgroupRankingExpression: "class == Besteffort ? 1.0 : 0.0"
"""
"""Upstream's trigger. A kernel that has memory on version 1 gives groups of version 2 no size to rank by."""
ENTER = """\
import mmap, os, sys, time
*groups, file = sys.argv[1:]
for group in groups:
    with open(f"{group}/cgroup.procs", "w") as procs:
        procs.write("0")
"""
DAEMON = """\
data = open(file, "w+b")
for _ in range(64):
    data.write(os.urandom(1 << 20))
data.flush()
os.fsync(data.fileno())
with mmap.mmap(data.fileno(), 0, prot=mmap.PROT_READ) as pages:
    while True:
        sum(pages[position] for position in range(0, len(pages), 4096))
        print("well", flush=True)
        time.sleep(0.01)
"""
"""Reads files over and over, as a system that is short of memory does with its own programs."""
PAYER = """\
taken = bytearray(16 << 20)
print("well", flush=True)
while True:
    time.sleep(1)
"""
STORM = """\
with open("/proc/self/oom_score_adj", "w") as score:
    score.write("1000")
while True:
    if not os.fork():
        break
    time.sleep(0.05)
taken = []
while True:
    taken.append(b"x" * (1 << 20))
    time.sleep(0.005)
"""
"""Forks programs that take more and more; the kernel ends one of them at a time."""


@dataclass(frozen=True, slots=True)
class Groups:
    """A tree of groups such as a node has, with a limit for all together."""

    hierarchies: Sequence[Hierarchy]
    folder: Path

    @property
    def root(self) -> Path:
        """The tree of version 2, which has the pressure."""
        [unified] = [one for one in self.hierarchies if one.unified]
        return unified.path / TOP

    @contextmanager
    def running(self, group: str, script: str) -> Generator["subprocess.Popen[bytes]"]:
        """A program in a group, once it has shown that it runs."""
        parts = (TOP, *group.split("/"))
        cgroups.make_group(self.hierarchies, parts, NodeLimits())
        places = [str(one.path.joinpath(*parts)) for one in self.hierarchies]
        argv = [sys.executable, "-c", f"{ENTER}{script}", *places, str(self.folder / "data")]
        with start_command(argv, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                if script != STORM:
                    assert process.stdout.readline() == b"well\n"
                yield process
            finally:
                process.kill()


@pytest.fixture
def groups(tmp_path: Path) -> Generator[Groups]:
    found = [one for one in cgroups.mounted_hierarchies() if one.unified or "memory" in one.controllers]
    if not any(one.unified for one in found):
        pytest.skip("there are no groups of version 2")
    made = Groups(found, tmp_path)
    for name in ("", "init", "podruntime"):
        cgroups.make_group(found, tuple(filter(None, (TOP, name))), NodeLimits(memory=0 if name else MEMORY))
    try:
        if not (made.root / "memory.pressure").exists():
            pytest.skip("the kernel has no pressure of groups")
        yield made
    finally:
        cgroups.kill(found, (TOP,))
        assert cgroups.remove(found, (TOP,)) == []


async def test_a_storm_of_programs_ends_and_nothing_beside_it(groups: Groups, tmp_path: Path) -> None:
    pressure, log, state = groups.root / "memory.pressure", list[str](), MemoryState()
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 1000 kB\nMemFree: 10 kB\n")
    controller = OOMController(
        Log(write=log.append),
        root=groups.root,
        pressure=pressure,
        meminfo=meminfo,
        open_trigger=lambda: PressureTrigger(STALL, WINDOW, pressure),
    )
    await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=CONFIG))
    with groups.running(SYSTEM, DAEMON) as daemon, groups.running(PAYING, PAYER) as client:
        async with running(state, controller):
            with groups.running(HOGS, STORM):
                action = await wait_for(state, kinds.OOM_ACTION, "0", lambda _: True)
                await wait_until_empty(groups.root / HOGS)
        assert (daemon.poll(), client.poll()) == (None, None)
    assert action.spec.score == 1.0
    assert len(action.spec.processes) > 1, action.spec.processes
    assert any("a group was ended" in line and HOGS in line for line in log)


async def wait_until_empty(group: Path) -> None:
    while "populated 1" in (group / "cgroup.events").read_text():  # noqa: ASYNC110 - it has no event
        await trio.sleep(0.05)
