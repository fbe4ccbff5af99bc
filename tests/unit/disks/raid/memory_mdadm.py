"""mdadm and the kernel's arrays in memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import trio

from talos.api.definitions import block_pb2
from talos.disks.raid.provide import DeviceReader
from talos.disks.raid.specs import FoundMember
from talos.resource import kinds
from talos.resource.resource import Resource, make_resource
from talos.system.block.blkid import Content
from talos.system.block.md import HOST, MDADM, MEMBER, Array, Mdadm, Member
from talos.system.process import Finished

UUID = "6a3f1d52-9c04-4b7e-8f61-0d2a7c5e9b13"
type Change = Callable[[Array], Array]

IN_SYNC, SPARE, FAULTY = frozenset({"in_sync"}), frozenset({"spare"}), frozenset({"faulty"})


EXAMINED = b"""\
/dev/vdc:
          Magic : a92b4efc
        Version : 1.0
    Feature Map : 0x0
     Array UUID : 6a3f1d52:9c044b7e:8f610d2a:7c5e9b13
           Name : talos:data
  Creation Time : Mon Sep 21 14:13:20 2026
     Raid Level : raid1
   Raid Devices : 2

 Avail Dev Size : 30000 sectors (14.65 MiB 15.36 MB)
     Array Size : 15000 KiB (14.65 MiB 15.36 MB)
   Super Offset : 32752 sectors
   Unused Space : before=0 sectors, after=2752 sectors
          State : clean
    Device UUID : 00010203:04050607:08090a0b:0c0d0e0f

    Update Time : Mon Sep 21 14:15:00 2026
       Checksum : 81924ecd - correct
         Events : 18


   Device Role : Active device 0
   Array State : AA ('A' == active, '.' == missing, 'R' == replacing)
"""
"""What mdadm 4.4 reports of a member."""


def make_member(
    device: str, slot: int | None = 0, states: frozenset[str] = IN_SYNC, *, is_present: bool = True
) -> Member:
    return Member(device=f"/dev/{device}", states=states, slot=slot, is_present=is_present)


def make_array(*members: Member, device: str = "/dev/md0", slots: int = 0, action: str = "idle") -> Array:
    return Array(
        device=device,
        uuid=UUID,
        level="raid1",
        metadata="1.0",
        state="clean",
        sync_action=action,
        has_bitmap=True,
        slots=slots or len(members),
        members=members,
    )


def make_members(*names: str, needed: int = 2) -> "MemoryMdadm":
    """Devices that are members of an array which does not run."""
    return MemoryMdadm(contents={f"/dev/{name}": MEMBER for name in names}, needed=needed)


def find_member(device: str, uuid: str = UUID, name: str = "talos:data") -> FoundMember:
    return FoundMember(device=f"/dev/{device}", uuid=uuid, name=name)


def make_document(name: str = "data", match: str = "disk.size > 0u", metadata: str = "") -> str:
    more = f'metadata: "{metadata}"\n' if metadata else ""
    return (
        f"apiVersion: v1alpha1\nkind: RAIDArrayConfig\nname: {name}\nlevel: raid1\n{more}"
        f"provisioning: {{volumeSelector: {{match: '{match}'}}}}\n"
    )


@dataclass
class MemoryMdadm:
    """Arrays, and what is on devices. ``failing`` modes fail, ``calls`` has the commands."""

    arrays: list[Array] = field(default_factory=list[Array])
    contents: dict[str, str] = field(default_factory=dict[str, str])
    """What libblkid finds by device."""
    heads: dict[str, bytes] = field(default_factory=dict[str, bytes])
    needed: int = 0
    """Members without which an array is only started when it may be partial."""
    states: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """What members have of the array's state when they are examined."""
    failing: dict[str, str] = field(default_factory=dict[str, str])
    calls: list[str] = field(default_factory=list[str])
    blank: list[str] = field(default_factory=list[str])

    @property
    def mdadm(self) -> Mdadm:
        return Mdadm(self.run, self.blank.append)

    @property
    def reader(self) -> DeviceReader:
        return DeviceReader(probe=self.probe, read_head=self.read_head)

    async def read_arrays(self) -> Sequence[Array]:
        await trio.lowlevel.checkpoint()
        return list(self.arrays)

    async def probe(self, device: str) -> Content:
        await trio.lowlevel.checkpoint()
        name = self.contents.get(device, "")
        return Content(kind="other" if name else "", name=name)

    async def read_head(self, device: str) -> bytes:
        await trio.lowlevel.checkpoint()
        return self.heads.get(device, bytes(4096))

    async def run(self, argv: Sequence[str], stdin: bytes) -> Finished:
        assert argv[0] == MDADM
        assert stdin == b""
        self.calls.append(" ".join(argv[1:]))
        mode, device, *rest = argv[1:]
        if mode in self.failing:
            return Finished(code=1, stderr=f"mdadm: {self.failing[mode]}\n".encode())
        words = [word for word in rest if word.startswith("-")]
        devices = [word for word in rest if word.startswith("/")]
        match mode:
            case "--create":
                members = [_member(name, slot) for slot, name in enumerate(devices)]
                self.arrays.append(replace(make_array(*members, device=device), has_bitmap=False))
                self.contents |= dict.fromkeys(devices, MEMBER)
            case "--assemble":
                if len(devices) < self.needed and "--run" not in words:
                    text = (
                        f"{device} assembled from {len(devices)} drive - need all {self.needed} to start it"
                    )
                    return Finished(code=1, stderr=f"mdadm: {text} (use --run to insist).\n".encode())
                members = [_member(name, slot) for slot, name in enumerate(devices)]
                self.arrays.append(make_array(*members, device=device, slots=self.needed))
            case "--examine":
                return Finished(code=0, stdout=EXAMINED.replace(b"AA", self.states.get(device, b"AA")))
            case "--manage" if {"--add", "--re-add"} & {*words}:
                self._change(device, lambda array: _add(array, devices))
            case "--manage":
                self._change(device, _clean)
            case "--grow" if "--bitmap=internal" in words:
                self._change(device, lambda array: replace(array, has_bitmap=True))
            case "--grow":
                slots = int(words[0].partition("=")[2])
                self._change(device, lambda array: _grow(array, slots))
            case _:
                assert mode == "--stop"
                self.arrays = [array for array in self.arrays if array.device != device]
        return Finished(code=0)

    def finish_sync(self) -> None:
        """The kernel has rebuilt everything."""
        self.arrays = [
            replace(
                array,
                sync_action="idle",
                members=tuple(
                    member if member.slot is None else replace(member, states=IN_SYNC)
                    for member in array.members
                ),
            )
            for array in self.arrays
        ]

    def _change(self, device: str, change: Change) -> None:
        self.arrays = [change(array) if array.device == device else array for array in self.arrays]

    def discover(self, *names: str) -> list[Resource[block_pb2.DiscoveredVolumeSpec]]:
        """What udevd finds on these devices."""
        found: list[Resource[block_pb2.DiscoveredVolumeSpec]] = []
        for name in names:
            content = self.contents.get(f"/dev/{name}", "")
            is_member = content == MEMBER
            spec = block_pb2.DiscoveredVolumeSpec(
                dev_path=f"/dev/{name}",
                name=content,
                size=512 << 20,
                uuid=UUID if is_member else "",
                label=f"{HOST}:data" if is_member else "",
            )
            found.append(make_resource(kinds.DISCOVERED_VOLUME, name, spec))
        return found


def _member(device: str, slot: int | None, states: frozenset[str] = IN_SYNC) -> Member:
    return Member(device=device, states=states, slot=slot, is_present=True)


def _add(array: Array, devices: Sequence[str]) -> Array:
    """Free slots are rebuilt, the rest are spares."""
    free = sorted(set(range(array.slots)) - {member.slot for member in array.members})
    added: list[Member] = []
    for number, device in enumerate(devices):
        added.append(_member(device, free[number] if number < len(free) else None, SPARE))
    action = "recover" if free else array.sync_action
    return replace(array, members=(*array.members, *added), sync_action=action)


def _grow(array: Array, slots: int) -> Array:
    free = iter(range(array.slots, slots))
    members = [
        replace(member, slot=next(free, None)) if member.slot is None else member for member in array.members
    ]
    return replace(array, slots=slots, members=tuple(members), sync_action="recover")


def _clean(array: Array) -> Array:
    return replace(array, members=tuple(member for member in array.members if member.is_working))
