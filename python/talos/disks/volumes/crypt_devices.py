"""The interface of encrypted volumes to their devices, and its implementation by cryptsetup."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, override

import trio

from talos.disks.volumes.encryption_keys import SlotKey
from talos.system.block.luks import Luks, LuksOptions, hold_in_memory
from talos.system.block.luks_header import (
    KMS_TOKEN,
    TPM_TOKEN,
    LuksHeader,
    NextKey,
    publish_header,
    read_header,
    write_mark,
)


class CryptDevices(Protocol):
    """Encrypted devices. UserError when a tool fails or a key is missing, OSError when the disk does."""

    async def create(self, device: str, name: str, keys: Sequence[SlotKey], options: LuksOptions) -> str:
        """Mark a device, make its header in memory, and open it by that; the mapped device."""
        ...

    async def publish(self, device: str, name: str) -> None:
        """Write the header that was made, which completes the device."""
        ...

    async def read_header(self, device: str) -> LuksHeader:
        """The device's header, checked."""
        ...

    async def open(
        self, device: str, name: str, header: LuksHeader, key: SlotKey, options: LuksOptions
    ) -> str:
        """Open with one key; the mapped device. KeyRejectedError."""
        ...

    async def test(self, device: str, key: SlotKey) -> bool:
        """Whether a key opens its slot."""
        ...

    async def add(self, device: str, opener: SlotKey, key: SlotKey) -> None:
        """Add a key to its free slot, with one that works."""
        ...

    async def change(self, device: str, opener: SlotKey, key: SlotKey) -> None:
        """Replace the key of the opener's slot; a power cut leaves either of them."""
        ...

    async def remove(self, device: str, slot: int, opener: SlotKey) -> None:
        """Destroy a slot, with the key of another one."""
        ...

    async def write_sealed(self, device: str, key: SlotKey) -> None:
        """Replace what a slot has sealed; a power cut leaves either of them."""
        ...

    async def write_next_key(self, device: str, place: int, key: NextKey) -> None:
        """Keep a slot's key for a start to come, as the token at ``place``."""
        ...

    async def remove_token(self, device: str, place: int) -> None:
        """Remove a token; nothing when it is not there."""
        ...

    async def close(self, name: str) -> None:
        """Close a mapped device; nothing when it is not open."""
        ...


class KernelCryptDevices(CryptDevices):
    """By cryptsetup and the kernel's device mapper."""

    def __init__(self, luks: Luks) -> None:
        self._luks = luks
        self._made: dict[str, bytes] = {}

    @override
    async def create(self, device: str, name: str, keys: Sequence[SlotKey], options: LuksOptions) -> str:
        await self.close(name)
        await trio.to_thread.run_sync(write_mark, device)
        first, *others = keys
        with hold_in_memory() as header:
            await self._luks.format(
                device, header, first.spec.slot, first.passphrase, options, is_random=first.is_sealed
            )
            if first.is_sealed:
                await self.write_sealed(header, first)
            for key in others:
                await self.add(header, first, key)
            mapped = await self._luks.open_by(
                device, name, header, first.spec.slot, first.passphrase, options
            )
            self._made[name] = await trio.to_thread.run_sync(Path(header).read_bytes)
        return mapped

    @override
    async def publish(self, device: str, name: str) -> None:
        await trio.to_thread.run_sync(publish_header, device, self._made.pop(name))

    @override
    async def read_header(self, device: str) -> LuksHeader:
        return await trio.to_thread.run_sync(read_header, device)

    @override
    async def open(
        self, device: str, name: str, header: LuksHeader, key: SlotKey, options: LuksOptions
    ) -> str:
        await self.close(name)
        return await self._luks.open(device, name, header, key.spec.slot, key.passphrase, options)

    @override
    async def test(self, device: str, key: SlotKey) -> bool:
        return await self._luks.test(device, key.spec.slot, key.passphrase)

    @override
    async def add(self, device: str, opener: SlotKey, key: SlotKey) -> None:
        slot = key.spec.slot
        if key.is_sealed:  # before the key: one without its token opens nothing
            await self.write_sealed(device, key)
        await self._luks.add(device, opener.passphrase, slot, key.passphrase, is_random=key.is_sealed)

    @override
    async def change(self, device: str, opener: SlotKey, key: SlotKey) -> None:
        slot = key.spec.slot
        await self._remove_next_keys(device, slot)
        if key.is_sealed:
            await self.write_sealed(device, key)
        await self._luks.change(device, slot, opener.passphrase, key.passphrase, is_random=key.is_sealed)
        if opener.is_sealed and not key.is_sealed:
            await self._luks.remove_token(device, slot)

    @override
    async def remove(self, device: str, slot: int, opener: SlotKey) -> None:
        await self._remove_next_keys(device, slot)
        await self._luks.remove(device, slot, opener.passphrase)

    async def _remove_next_keys(self, device: str, slot: int) -> None:
        """Those of a slot whose key goes: they would be taken for keys of the next one's."""
        for place, key in (await self.read_header(device)).next_keys.items():
            if key.slot == slot:
                await self._luks.remove_token(device, place)

    @override
    async def write_sealed(self, device: str, key: SlotKey) -> None:
        kind = TPM_TOKEN if key.is_of_tpm else KMS_TOKEN
        await self._luks.write_token(device, key.spec.slot, key.sealed, kind=kind)

    @override
    async def write_next_key(self, device: str, place: int, key: NextKey) -> None:
        await self._luks.write_next_key(device, place, key)

    @override
    async def remove_token(self, device: str, place: int) -> None:
        await self._luks.remove_token(device, place)

    @override
    async def close(self, name: str) -> None:
        await self._luks.close(name)
