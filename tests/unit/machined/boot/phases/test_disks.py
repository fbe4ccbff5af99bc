"""What a kernel argument erases: once all disks are known, on arrays that do not run yet, too."""

from collections.abc import Sequence

import pytest
from tests.unit.disks.raid.discovery import Discovery
from tests.unit.disks.raid.memory_mdadm import make_members
from trio.testing import MockClock

from talos.machined.boot.phases.disks import find_erasures


@pytest.mark.parametrize(
    ("labels", "found", "problems", "is_started"),
    [
        (["ETCD"], {"md0": ["ETCD"]}, [], True),
        (["META", "ETCD"], {"vdz": ["META"], "md0": ["ETCD"]}, [], True),
        (["ETCD", "LOG"], {"md0": ["ETCD"]}, ["there is no partition LOG to erase"], True),
        (["META"], {"vdz": ["META"]}, [], False),
        ([], {"vdz": []}, [], False),
    ],
)
async def test_a_partition_on_an_array_is_found(
    labels: Sequence[str],
    found: dict[str, Sequence[str]],
    problems: Sequence[str],
    is_started: bool,
    autojump_clock: MockClock,
) -> None:
    del autojump_clock
    memory = make_members("vda", "vdb")
    discovery = Discovery(memory, ("vda", "vdb"), "ETCD")
    async with discovery.run():
        await discovery.add_disk("vdz")
        await discovery.add_part("vdz", "META")
        erasures, lines = await find_erasures(discovery.state, discovery.arrays, labels)
    assert {one.disk.id: [part.label for part in one.parts] for one in erasures} == found
    assert lines == problems
    assert bool(memory.arrays) is is_started, "an array that is not needed is left alone"
