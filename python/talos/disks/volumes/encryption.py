"""An encrypted volume: its keys, its creation, unlocking it, and its key slots kept as configured.

Creation is safe against power cuts. The first sector of the device is zero, then the mark, then the header's,
each written at once: under the mark nothing is kept. The header is made in memory with all of its slots, the
filesystem is made through it, and only then is it written. So a device that has a header is complete, and is
never written anew.
"""

import hashlib
from collections.abc import Awaitable, Callable, Generator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from talos.api.definitions import block_pb2
from talos.disks.volumes.crypt_devices import CryptDevices
from talos.disks.volumes.encryption_keys import SlotKey
from talos.disks.volumes.encryption_spec import join_keys
from talos.system.block.luks import KeyRejectedError, LuksOptions
from talos.system.block.luks_header import LuksHeader
from talos.system.errors import UserError
from talos.system.logging import Log


@dataclass(kw_only=True)
class VolumeEncryption:
    """The encryption of one volume. ``older`` are keys that the slots may still have.

    ``refused`` keeps why a volume can't be unlocked: the same keys and the same header are not tried again.
    ``remember`` writes elsewhere which keys the slots may have, before they change and when they have: for
    STATE, which the config lies in. One that is not ``configured`` is opened only.
    """

    devices: CryptDevices
    volume: str
    spec: block_pb2.EncryptionSpec
    keys: Sequence[SlotKey]
    older: Sequence[SlotKey] = ()
    configured: bool = True
    refused: MutableMapping[str, tuple[bytes, str]] = field(default_factory=dict[str, tuple[bytes, str]])
    remember: Callable[[block_pb2.EncryptionSpec | None], Awaitable[None]] | None = None
    log: Log
    opener: SlotKey | None = None
    """The key that opened it, or that it was made with."""
    failed: tuple[str, ...] = ()
    """Why slots are not as configured."""
    _passes_discards: bool = False
    """Whether it was opened so."""

    @property
    def name(self) -> str:
        """The mapping's name."""
        return f"luks2-{self.volume}"

    @property
    def options(self) -> LuksOptions:
        """How the device is made and opened."""
        spec = self.spec
        return LuksOptions(
            cipher=spec.cipher,
            key_bits=spec.key_size,
            sector_size=spec.block_size,
            performance=tuple(spec.perf_options),
            allow_discards=spec.allow_discards,
        )

    @property
    def allows_discards(self) -> bool:
        """Whether free blocks may be reported to the disk, by the config and by how it was opened."""
        return self._passes_discards and self.spec.allow_discards

    async def create(self, device: str) -> str:
        """Begin a new encrypted device; it is nothing yet before :meth:`publish`."""
        for key in self.keys:
            if key.problem:
                raise UserError(f"can't be encrypted: {key}: {key.problem}", where=self.volume)
        if self.remember:
            await self.remember(self.spec)
        self.log.info(f"volume {self.volume}: encrypting it", device=device)
        mapped = await self.devices.create(device, self.name, self.keys, self.options)
        self.opener, self._passes_discards = self.keys[0], self.spec.allow_discards
        return mapped

    async def forget(self) -> None:
        """Take back what was remembered: the volume is made anew without encryption."""
        if self.remember:
            await self.remember(None)

    async def rekey(self, device: str, spec: block_pb2.EncryptionSpec, keys: Sequence[SlotKey]) -> None:
        """Have the slots of an open volume as a new config has them; see :meth:`keep_slots`."""
        self.older, self.spec, self.keys = self.keys, spec, keys
        await self.keep_slots(device)

    async def publish(self, device: str) -> None:
        """Complete it."""
        await self.devices.publish(device, self.name)

    async def open(self, device: str) -> str:
        """Unlock by the first key that works, in the order of the slots; the mapped device.

        UserError with every slot's reason when none does.
        """
        header = await self.devices.read_header(device)
        attempt = self._make_fingerprint(header)
        if self.refused.get(self.volume, (b"", ""))[0] == attempt:
            raise UserError(self.refused[self.volume][1], where=self.volume)
        reasons: list[str] = []
        is_final = True
        for key in [*self.keys, *(key for key in self.older if key not in self.keys)]:
            reason = self._find_obstacle(key, header)
            if not reason:
                try:
                    mapped = await self.devices.open(device, self.name, header, key, self.options)
                except KeyRejectedError as error:
                    reason = error.message
                except UserError as error:
                    reason, is_final = error.message, False
                else:
                    self.log.info(f"volume {self.volume}: unlocked", device=device, key=str(key))
                    self.opener, self._passes_discards = key, self.spec.allow_discards
                    self.refused.pop(self.volume, None)
                    return mapped
            reasons.append(f"{key}: {reason}")
        text = f"{device} can't be unlocked: {'; '.join(reasons)}"
        if is_final:
            self.refused[self.volume] = attempt, text
        raise UserError(text, where=self.volume)

    def _find_obstacle(self, key: SlotKey, header: LuksHeader) -> str:
        if key.problem:
            return key.problem
        return "" if key.spec.slot in header.slots else "the volume has no key in this slot"

    def _make_fingerprint(self, header: LuksHeader) -> bytes:
        """What decides whether the volume can be unlocked. A digest: keys are not kept in another place."""
        digest = hashlib.sha256(header.data)
        for key in (*self.keys, *self.older):
            digest.update(repr((key.spec.slot, key.passphrase, key.problem)).encode())
        return digest.digest()

    async def keep_slots(self, device: str) -> None:
        """Have the slots as configured: missing keys are added, others replaced, what is left over destroyed.

        The slot that opened the volume goes last, so that one key works at any time. What fails is recorded
        and logged: the volume is open.
        """
        opener = self.opener
        if opener is None or not self.configured:
            return
        failed: list[str] = []
        try:
            present = set((await self.devices.read_header(device)).slots)
            if self.remember:
                older = (key.spec for key in self.older if key.spec not in self.spec.keys)
                await self.remember(join_keys(self.spec, older))
        except (UserError, OSError) as error:
            failed.append(f"error reading key slots: {error}")
        else:
            await self._keep_all(device, opener, present, failed)
            if self.remember and not failed:
                await self.remember(self.spec)
        for line in failed:
            if line not in self.failed:
                self.log.warning(f"volume {self.volume}: {line}", device=device)
        self.failed = tuple(failed)

    async def _keep_all(self, device: str, opener: SlotKey, present: set[int], failed: list[str]) -> None:
        for key in self.keys:
            with _record(failed, key.spec.slot, "updating" if key.spec.slot in present else "adding"):
                await self._keep_slot(device, opener, key, present)
        wanted = {key.spec.slot for key in self.keys}
        for slot in sorted(present - wanted, key=lambda slot: (slot == opener.spec.slot, slot)):
            with _record(failed, slot, "removing"):
                await self._remove_slot(device, opener, slot, present)

    async def _keep_slot(self, device: str, opener: SlotKey, key: SlotKey, present: set[int]) -> None:
        slot = key.spec.slot
        if key.problem:
            raise UserError(key.problem)
        if slot == opener.spec.slot:
            if key.passphrase == opener.passphrase:
                return
            await self.devices.change(device, opener, key)
            self.opener = key
        else:
            if slot in present:
                if await self.devices.test(device, key):
                    return
                await self.devices.remove(device, slot, self.opener or opener)
                present.discard(slot)
            await self.devices.add(device, self.opener or opener, key)
            present.add(slot)
        self.log.info(f"volume {self.volume}: a key was written", device=device, key=str(key))

    async def _remove_slot(self, device: str, opener: SlotKey, slot: int, present: set[int]) -> None:
        """Destroy a slot; the opener's only with a configured key that is known to work."""
        by = self.opener or opener
        if slot == opener.spec.slot:
            usable = [key for key in self.keys if key.spec.slot in present and not key.problem]
            working = [key for key in usable if await self.devices.test(device, key)]
            if not working:
                raise UserError("no configured key works yet")
            by = working[0]
        await self.devices.remove(device, slot, by)
        self.opener = by
        self.log.info(f"volume {self.volume}: a key was removed", device=device, slot=slot)

    async def close(self) -> None:
        """Close it; nothing when it is not open. UserError while something uses it."""
        await self.devices.close(self.name)


@contextmanager
def _record(failed: list[str], slot: int, what: str) -> Generator[None]:
    """Record what fails in upstream's words."""
    try:
        yield
    except (UserError, OSError) as error:
        failed.append(f"error {what} key slot {slot}: {error}")
