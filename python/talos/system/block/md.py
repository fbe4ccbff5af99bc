"""Software RAID: the arrays that the kernel runs, as sysfs shows them, and Debian's ``mdadm`` to change them.

What is read is described in the kernel's ``Documentation/admin-guide/md.rst``. A level is ``raid1``, a
UUID has hyphens in sysfs, as libblkid writes it, and colons for mdadm.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import trio

from talos.system.block.partitions import Run
from talos.system.block.sysfs import SysDevice, Sysfs
from talos.system.errors import UserError
from talos.system.process import Finished

MDADM = "/usr/sbin/mdadm"
MEMBER = "linux_raid_member"
"""libblkid's name for a member of an array."""
HOST = "talos"
"""What the names of arrays made here begin with, before a colon."""
ARRAY = "/dev/md"
"""What the devices of arrays begin with, before a number."""
MAX_ARRAYS = 128
_NAME_BYTES = 32
_UNIT = 512
"""Bytes in which sysfs counts."""
_MAX_REASON = 400
"""Characters of a program's report."""
SYNCING = frozenset({"resync", "recover", "reshape"})
"""Actions of the kernel that write to members."""
_ARRAY_STATE = re.compile(rb"^ *Array State : ([A.R]+) ", re.MULTILINE)
_STOPPED = frozenset({"", "clear", "inactive"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A device in an array. ``states`` are the kernel's words; a spare has no ``slot``."""

    device: str
    states: frozenset[str]
    slot: int | None
    is_present: bool
    """Whether the device is still there: the kernel keeps one that was removed until it is used."""
    offset: int = 0
    """Bytes before the array's first one."""

    @property
    def is_working(self) -> bool:
        """Whether it is there and has not failed."""
        return self.is_present and "faulty" not in self.states

    @property
    def is_in_sync(self) -> bool:
        """Whether it holds all that the array does."""
        return self.is_working and "in_sync" in self.states and self.slot is not None

    @property
    def is_spare(self) -> bool:
        """Whether it waits for a slot."""
        return self.is_working and self.slot is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """An array in the kernel. ``device`` is such as ``/dev/md0``."""

    device: str
    uuid: str
    level: str
    metadata: str
    state: str
    sync_action: str
    has_bitmap: bool
    """Whether it has a record of what is being written, so that only that is copied after a power cut."""
    slots: int
    members: tuple[Member, ...]

    @property
    def is_running(self) -> bool:
        """Whether it can be read."""
        return self.state not in _STOPPED

    @property
    def is_syncing(self) -> bool:
        """Whether its members are being made equal."""
        return self.sync_action in SYNCING

    @property
    def is_busy(self) -> bool:
        """Whether the kernel refuses changes of its shape."""
        return self.sync_action not in {"", "idle"}

    @property
    def missing(self) -> int:
        """How many slots have no member that holds everything."""
        return max(self.slots - sum(member.is_in_sync for member in self.members), 0)

    @property
    def is_degraded(self) -> bool:
        """Whether members are missing, and nothing is being done about that."""
        return self.missing > 0 and not self.is_syncing

    def has_member(self, device: str) -> bool:
        """Whether a device is in it, failed or not."""
        return any(member.device == device for member in self.members)


def read_arrays(sysfs: Sysfs) -> list[Array]:
    """The arrays, in the order of their names."""
    devices = [device for device in sysfs.listing("class/block") if device.has("md/array_state")]
    return [_read_array(device) for device in devices]


def _read_array(device: SysDevice) -> Array:
    names = [name for name in device.entries("md") if name.startswith("dev-")]
    return Array(
        device=f"/dev/{device.kernel_name}",
        uuid=device.attribute("md/uuid"),
        level=device.attribute("md/level"),
        metadata=device.attribute("md/metadata_version"),
        state=device.attribute("md/array_state"),
        sync_action=device.attribute("md/sync_action"),
        has_bitmap=device.attribute("md/bitmap/location") not in {"", "none"},
        slots=_parse_number(device.attribute("md/raid_disks").partition(" ")[0]) or 0,
        members=tuple(_read_member(device, name) for name in names),
    )


def _read_member(device: SysDevice, name: str) -> Member:
    return Member(
        device=f"/dev/{name.removeprefix('dev-').replace('!', '/')}",
        states=frozenset(filter(None, device.attribute(f"md/{name}/state").split(","))),
        slot=_parse_number(device.attribute(f"md/{name}/slot")),
        is_present=bool(device.attribute(f"md/{name}/block")),
        offset=device.number(f"md/{name}/offset") * _UNIT,
    )


def _parse_number(text: str) -> int | None:
    return int(text) if text.isdecimal() and text.isascii() else None


def find_free_device(arrays: Iterable[Array]) -> str:
    """The device of the next array; UserError when all are used."""
    used = {array.device for array in arrays}
    for number in range(MAX_ARRAYS):
        device = f"{ARRAY}{number}"
        if device not in used:
            return device
    raise UserError(f"there are {MAX_ARRAYS} arrays already", where="RAID")


def make_name(name: str) -> str:
    """An array's name as mdadm writes it into the metadata, which has room for so much."""
    whole = f"{HOST}:{name}"
    return whole if len(whole) < _NAME_BYTES else name


def format_uuid(uuid: str) -> str:
    """A UUID as mdadm writes it: four times eight digits, with colons."""
    digits = uuid.replace("-", "")
    return ":".join(digits[start : start + 8] for start in range(0, len(digits), 8))


class Mdadm:
    """Calls of mdadm. UserError with what it reported. ``make_blank`` erases both ends of a device."""

    def __init__(self, run: Run, make_blank: Callable[[str], None]) -> None:
        self._run = run
        self._make_blank = make_blank

    async def create(self, device: str, name: str, metadata: str, members: Sequence[str]) -> None:
        """Make a mirror of devices, whatever is on them: the caller has looked. It is blank.

        Its members are taken as equal: what was never written is never read. It gets a bitmap afterwards:
        mdadm would write that behind metadata that names it, and a power cut between both would leave an
        array that the kernel does not start.
        """
        options = [
            f"--name={name}", f"--homehost={HOST}", "--run", "--assume-clean", "--level=1",
            f"--raid-devices={len(members)}", f"--metadata={metadata}", "--bitmap=none",
        ]  # fmt: skip
        await self._call("--create", [device, *options, *members], name)
        await trio.to_thread.run_sync(self._make_blank, device)

    async def assemble(self, device: str, members: Sequence[str], *, partial: bool) -> None:
        """Start an array; one that lacks members only when that is ``partial``, or was so before."""
        options = ["--run"] if partial else []
        await self._call("--assemble", [device, *options, *members], device)

    async def add(self, device: str, members: Sequence[str]) -> None:
        """Add blank devices: the kernel rebuilds a missing member on one, else they are spares."""
        await self._call("--manage", [device, "--add", *members], device)

    async def add_again(self, device: str, member: str) -> None:
        """Take a member back: the bitmap has what was written meanwhile. mdadm refuses when it does not."""
        await self._call("--manage", [device, "--re-add", member], device)

    async def has_run_alone(self, member: str) -> bool:
        """Whether an array ran with this member and without others, by the member's own metadata.

        What was written then is nowhere else, and no bitmap of the others has it.
        """
        done = await self._call("--examine", [member], member)
        states = _ARRAY_STATE.search(done.stdout)
        return states is None or b"." in states[1]

    async def grow(self, device: str, slots: int) -> None:
        """Let spares become members."""
        await self._call("--grow", [device, f"--raid-devices={slots}"], device)

    async def add_bitmap(self, device: str) -> None:
        """Have the array record what is being written, in room that its members have for that."""
        await self._call("--grow", [device, "--bitmap=internal"], device)

    async def drop_failed(self, device: str) -> None:
        """Take out members that have failed, and those whose device is gone."""
        words = ["--fail", "detached", "--remove", "detached", "--remove", "failed"]
        await self._call("--manage", [device, *words], device)

    async def stop(self, device: str) -> None:
        """Stop an array that is not in use."""
        await self._call("--stop", [device], device)

    async def _call(self, mode: str, arguments: Sequence[str], where: str) -> Finished:
        done = await self._run([MDADM, mode, *arguments], b"")
        if done.code:
            raise UserError(f"mdadm {mode} ended with {done.code}: {_find_reason(done)}", where=where)
        return done


def _find_reason(done: Finished) -> str:
    """All that it reported, in one line: the reason is not always the last one."""
    text = (done.stderr.strip() or done.stdout.strip()).decode(errors="replace")
    lines = [line.strip().removeprefix("mdadm: ") for line in text.splitlines()]
    return "; ".join(filter(None, lines))[:_MAX_REASON] or "no reason given"
