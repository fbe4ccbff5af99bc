"""A disk in memory, and power cuts: the twin of the kernel's disks."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from talos.disks.volumes.blocks import NewFilesystem
from talos.disks.volumes.encryption_keys import SlotKey
from talos.system.block import ext4
from talos.system.block.blkid import Content, Partition
from talos.system.block.layout import GIB, INSTALLED, MIB, place_areas
from talos.system.block.luks import KeyRejectedError, LuksOptions
from talos.system.block.luks_header import MARK, LuksHeader, NextKey
from talos.system.block.partitions import UNFINISHED, NewPartition, Table, name_partition
from talos.system.errors import UserError

DISK = "/dev/vda"
GPT = Content(kind="partition-table", name="gpt")
MAPPED = "/dev/mapped"
"""What the devices of encrypted ones begin with: ``/dev/mapped/dev/vda5``."""
HALF_MADE = Content(kind="filesystem", name="ext4", label="half")
"""What a program left that was cut off: anything, also something misleading."""


class PowerCutError(Exception):
    """The power went."""


@dataclass
class MemoryBlocks:
    """One disk. With ``cut`` the power goes at so many writes; half of that write may have happened."""

    size: int = 10 * GIB
    partitions: dict[int, Partition] = field(default_factory=dict[int, Partition])
    contents: dict[int, Content] = field(default_factory=dict[int, Content])
    heads: dict[int, bytes] = field(default_factory=dict[int, bytes])
    cut: int = -1
    writes: list[str] = field(default_factory=list[str])
    dirty_log: bool = False
    has_errors: bool = False
    """Whether a filesystem has recorded some."""
    stale: Content | None = None
    """What lies in the free part of the disk since earlier times."""
    whole: Content = GPT
    """What the disk holds, seen as a whole."""
    groups: list[int] = field(default_factory=list[int])
    """The smallest allocation groups of filesystems that were made."""
    inside: dict[str, Content] = field(default_factory=dict[str, Content])
    """What encrypted devices hold, by their mapped devices."""

    def install(self) -> None:
        """The partitions that an installer makes."""
        for placed in place_areas(INSTALLED):
            number = placed.number
            self.partitions[number] = Partition(
                number=number, start=placed.start, size=placed.area.size, label=placed.area.label
            )
            name = "talosmeta" if placed.area.label == "META" else placed.area.filesystem
            self.contents[number] = Content(kind="filesystem" if name else "", name=name)

    async def probe(self, device: str) -> Content:
        if device.startswith(MAPPED):
            return replace(self.inside.get(device, Content()), size=self.size)
        if device == DISK:
            rows = tuple(self.partitions.values())
            return replace(self.whole, size=self.size, partitions=rows)
        number = int(device.removeprefix(DISK))
        return replace(self.contents.get(number, Content()), size=self.partitions[number].size)

    async def read_head(self, device: str) -> bytes:
        if device.startswith(MAPPED):
            return b"noise"
        return self.heads.get(int(device.removeprefix(DISK) or "0"), bytes(4096))

    async def make_table(self, disk: str) -> None:
        assert disk == DISK
        assert not self.whole.kind, "what is on the disk is lost"
        self.write("make table")
        self.whole = GPT

    async def read_table(self, disk: str) -> Table:
        assert disk == DISK
        return Table(
            uuid="x",
            sector_size=512,
            first=MIB,
            end=self.size - MIB,
            partitions=tuple(self.partitions.values()),
        )

    async def erase(self, disk: str, start: int, size: int) -> None:
        assert disk == DISK
        assert size
        self.write(f"erase {start}")
        self.stale = None

    async def append(self, disk: str, table: Table, part: NewPartition) -> Partition:
        assert disk == DISK
        assert all(row in self.partitions.values() for row in table.partitions)
        number = max(self.partitions, default=0) + 1
        for row in self.partitions.values():
            assert part.start >= row.start + row.size or part.start + part.size <= row.start
        assert part.start + part.size <= self.size - MIB
        self.write(f"append {part.label}")
        row = Partition(
            number=number,
            start=part.start,
            size=part.size,
            label=part.label,
            flags=part.unfinished << UNFINISHED,
        )
        self.partitions[number] = row
        if self.stale:
            self.contents[number] = self.stale
        self._may_cut()
        return row

    async def mark(self, disk: str, number: int, *, finished: bool) -> None:
        assert disk == DISK
        self.write(f"mark {number} {'finished' if finished else 'unfinished'}")
        row = self.partitions[number]
        self.partitions[number] = replace(row, flags=0 if finished else 1 << UNFINISHED)
        self._may_cut()

    async def grow(self, disk: str, number: int, size: int) -> None:
        assert disk == DISK
        self.write(f"grow {number}")
        self.partitions[number] = replace(self.partitions[number], size=size)
        self._may_cut()

    async def format(self, device: str, filesystem: NewFilesystem) -> None:
        name, size = filesystem.type, filesystem.size
        made = Content(kind="filesystem", name=name, label=filesystem.label, filesystem_size=size)
        self.groups.append(filesystem.min_group)
        if device.startswith(MAPPED):
            self.inside[device] = HALF_MADE
            self.write(f"format {device}")
            self.inside[device] = made
            self._may_cut()
            return
        if device == DISK:
            is_half_made = self.heads.pop(0, b"").startswith(ext4.MARK)
            assert is_half_made or not self.whole.kind, "what is on the disk is lost"
            self.write(f"format {device}")
            self.whole = made
            return
        number = int(device.removeprefix(DISK))
        assert self.partitions[number].flags, "a partition is formatted without the flag"
        self.contents[number] = HALF_MADE
        self.write(f"format {device}")
        self.contents[number] = replace(made, uuid=str(len(self.writes)))
        self._may_cut()

    async def check(self, device: str, filesystem: str) -> bool:
        return not self.has_errors

    async def repair(self, device: str, filesystem: str, *, force: bool) -> bool:
        self.write(f"repair {device}{' without its log' if force else ''}")
        if self.dirty_log and not force:
            return False
        number = int(device.removeprefix(DISK))
        if self.heads.pop(number, b""):
            self.contents[number] = Content(kind="filesystem", name=filesystem)
        return True

    async def make_swap(self, device: str) -> None:
        self.write(f"make swap {device}")

    async def start_swap(self, device: str) -> None:
        self.write(f"swap to {device}")

    async def end_swap(self, device: str) -> None:
        self.write(f"end swap {device}")

    async def grow_filesystem(self, device: str, filesystem: str, target: str) -> bool:
        self.write(f"grow filesystem {target}")
        return True

    async def set_mode(self, target: str, mode: int) -> None:
        self.write(f"mode {target} {mode:o}")

    def name_partition(self, disk: str, number: int) -> str:
        return name_partition(disk, number)

    def write(self, what: str) -> None:
        """Record a write; the power may go before it."""
        self._may_cut()
        self.writes.append(what)

    def _may_cut(self) -> None:
        if self.cut == 0:
            raise PowerCutError
        self.cut -= 1


class FailingBlocks(MemoryBlocks):
    """A disk whose table can't be changed."""

    async def grow(self, disk: str, number: int, size: int) -> None:
        raise UserError("sfdisk ended with 1: no", where=f"{disk} {number} {size}")


@dataclass
class MemoryCrypt:
    """Encrypted devices of such a disk. ``slots`` are the passphrases by device and slot."""

    blocks: MemoryBlocks
    slots: dict[str, dict[int, bytes]] = field(default_factory=dict[str, dict[int, bytes]])
    opened: dict[str, str] = field(default_factory=dict[str, str])
    tries: int = 0
    busy: set[str] = field(default_factory=set[str])
    """Names of mappings that something uses."""
    tokens: dict[str, dict[int, bytes]] = field(default_factory=dict[str, dict[int, bytes]])
    """Sealed keys, by device and slot."""
    sealed_by_tpm: dict[str, dict[int, bytes]] = field(default_factory=dict[str, dict[int, bytes]])
    """The same, of the TPM."""
    next_keys: dict[str, dict[int, NextKey]] = field(default_factory=dict[str, dict[int, NextKey]])
    """Keys for starts to come, by device and token."""
    room: int = 12 << 10
    """Bytes for these in a header."""
    _made: dict[str, Sequence[SlotKey]] = field(default_factory=dict[str, Sequence[SlotKey]])

    async def create(self, device: str, name: str, keys: Sequence[SlotKey], options: LuksOptions) -> str:
        number = int(device.removeprefix(DISK) or "0")
        flagged = number and self.blocks.partitions[number].flags
        assert flagged or device not in self.slots, "the keys of a device are lost"
        self.blocks.write(f"mark {device} as being encrypted")
        self.blocks.heads[number] = MARK
        self.blocks.write(f"encrypt {device}")
        self._made[name] = keys
        self.opened[name] = MAPPED + device
        self.blocks.inside.pop(self.opened[name], None)
        return self.opened[name]

    async def publish(self, device: str, name: str) -> None:
        number = int(device.removeprefix(DISK) or "0")
        self.blocks.write(f"publish {device}")
        self.blocks.heads[number] = b"LUKS"
        content = Content(kind="other", name="crypto_LUKS")
        if number:
            self.blocks.contents[number] = content
        else:
            self.blocks.whole = content
        self.slots[device], self.tokens[device] = {}, {}
        for key in self._made.pop(name):
            self._put(device, key)
        self.blocks.write(f"published {device}")

    async def read_header(self, device: str) -> LuksHeader:
        slots, sealed = self.slots[device], self.tokens[device]
        by_tpm = self.sealed_by_tpm.get(device, {})
        return LuksHeader(
            slots=tuple(sorted(slots)),
            data=repr(slots).encode(),
            sealed=dict(sealed),
            sealed_by_tpm=dict(by_tpm),
            next_keys=dict(self.next_keys.get(device, {})),
            tokens=frozenset({*sealed, *by_tpm, *self.next_keys.get(device, {})}),
            room=self.room,
        )

    async def open(
        self, device: str, name: str, header: LuksHeader, key: SlotKey, options: LuksOptions
    ) -> str:
        self.tries += 1
        await self.close(name)
        if not await self.test(device, key):
            raise KeyRejectedError("encryption key rejected", where=device)
        self.opened[name] = MAPPED + device
        return self.opened[name]

    async def test(self, device: str, key: SlotKey) -> bool:
        return self.slots[device].get(key.spec.slot) == key.passphrase

    async def add(self, device: str, opener: SlotKey, key: SlotKey) -> None:
        assert await self.test(device, opener)
        assert key.spec.slot not in self.slots[device]
        self.blocks.write(f"add {key.spec.slot}")
        self._put(device, key)

    async def change(self, device: str, opener: SlotKey, key: SlotKey) -> None:
        assert await self.test(device, opener)
        self.blocks.write(f"change {key.spec.slot}")
        self._put(device, key)

    async def remove(self, device: str, slot: int, opener: SlotKey) -> None:
        assert await self.test(device, opener)
        assert opener.spec.slot != slot, "the last key may be lost"
        self.blocks.write(f"remove {slot}")
        del self.slots[device][slot]
        self._drop_token(device, slot)

    def _put(self, device: str, key: SlotKey) -> None:
        self.slots[device][key.spec.slot] = key.passphrase
        self._drop_token(device, key.spec.slot)
        if key.is_of_tpm:
            self.sealed_by_tpm.setdefault(device, {})[key.spec.slot] = key.sealed
        elif key.is_sealed:
            self.tokens[device][key.spec.slot] = key.sealed

    def _drop_token(self, device: str, slot: int) -> None:
        self.tokens[device].pop(slot, None)
        self.sealed_by_tpm.get(device, {}).pop(slot, None)

    async def write_sealed(self, device: str, key: SlotKey) -> None:
        self.blocks.write(f"seal {key.spec.slot}")
        self.sealed_by_tpm[device][key.spec.slot] = key.sealed

    async def write_next_key(self, device: str, place: int, key: NextKey) -> None:
        self.blocks.write(f"token {place}")
        self.next_keys.setdefault(device, {})[place] = key

    async def remove_token(self, device: str, place: int) -> None:
        self.blocks.write(f"remove token {place}")
        del self.next_keys[device][place]

    async def close(self, name: str) -> None:
        if name in self.busy & self.opened.keys():
            raise UserError("cryptsetup luksClose ended with 5: it is still in use", where=name)
        self.opened.pop(name, None)
