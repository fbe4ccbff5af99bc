"""Keys of volumes in use, sealed by the TPM for starts to come, which an upgrade prepares."""

import base64
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import override

from talos.disks.volumes.encryption import VolumeEncryption
from talos.disks.volumes.encryption_keys import SlotKey
from talos.machined.node.tpm_keys import TpmKeys
from talos.system.block.luks_header import NextKey
from talos.system.errors import UserError
from talos.system.tpm.sealing import find_value
from talos.upgrade.slots.open_keys import OpenKey


@dataclass(frozen=True, slots=True)
class VolumeOpenKey(OpenKey):
    """The key of a volume in use, which lies on ``device``."""

    encryption: VolumeEncryption
    device: str
    tpm: TpmKeys

    @property
    @override
    def slot(self) -> int | None:
        opener = self.encryption.opener
        return opener.spec.slot if opener is not None and opener.is_of_tpm else None

    @override
    async def seal(self, pcr: int, values: Sequence[bytes]) -> Sequence[NextKey]:
        opener = self._find_opener()
        secret = base64.b64decode(opener.passphrase.removesuffix(opener.salt))
        sealed = await self.tpm.seal_for_values(secret, opener.sealed, pcr, values)
        keys = [NextKey(opener.spec.slot, each) for each in sealed]
        (await self.encryption.devices.read_header(self.device)).find_places(keys)
        return keys

    @override
    async def write(self, keys: Sequence[NextKey]) -> None:
        header = await self.encryption.devices.read_header(self.device)
        for place, key in zip(header.find_places(keys), keys, strict=True):
            await self.encryption.devices.write_next_key(self.device, place, key)
        self._log(
            f"its key is sealed for {len(keys)} values that PCRs may have after an upgrade", keys[0].slot
        )

    @override
    async def has_next(self) -> bool:
        return bool((await self.encryption.devices.read_header(self.device)).next_keys)

    @override
    async def settle(self, pcr: int, values: Collection[bytes]) -> None:
        """What opens the slot now comes first: after a power cut both are there."""
        opener, devices = self._find_opener(), self.encryption.devices
        header = await devices.read_header(self.device)
        slot = opener.spec.slot
        value = find_value(header.sealed_by_tpm[slot], pcr) if slot in header.sealed_by_tpm else None
        if value not in values and value != (present := find_value(opener.sealed, pcr)):
            await devices.write_sealed(self.device, opener)
            value = present
            self._log("its key is bound to the present PCRs from now on", slot)
        kept = {each for each in values if each != value}
        gone = [
            place
            for place, key in header.next_keys.items()
            if key.slot not in header.slots or (key.slot == slot and find_value(key.sealed, pcr) not in kept)
        ]
        for place in gone:
            await devices.remove_token(self.device, place)
        if gone:
            self._log(f"{len(gone)} keys for other starts were removed", slot)

    def _log(self, text: str, slot: int) -> None:
        volume = self.encryption.volume
        self.encryption.log.info(f"volume {volume}: {text}", device=self.device, slot=slot)

    def _find_opener(self) -> SlotKey:
        opener = self.encryption.opener
        if opener is None or not opener.is_of_tpm:
            raise UserError("no key of the TPM has opened it", where=self.encryption.volume)
        return opener
