"""A TPM in memory: the twin of the machine's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import override

import trio

from talos.machined.node.tpm_keys import TpmKeys
from talos.system.errors import UserError
from talos.system.tpm.sealing import SealedSecret, format_sealed, parse_sealed


@dataclass
class MemoryTpm(TpmKeys):
    """What it seals it can open again, while ``pcrs`` are the same; by number, what was measured."""

    pcrs: dict[int, str] = field(default_factory=lambda: {7: "usual"})
    is_measured: bool = True
    is_locked: bool = False

    @override
    async def seal(self, secret: bytes, pcrs: Sequence[int], *, needs_secure_boot: bool) -> bytes:
        await trio.lowlevel.checkpoint()
        if needs_secure_boot:
            raise UserError("Secure Boot is off")
        return _seal(secret, {pcr: self.pcrs[pcr].encode() for pcr in pcrs})

    @override
    async def seal_for_values(
        self, secret: bytes, sealed: bytes, pcr: int, values: Sequence[bytes]
    ) -> Sequence[bytes]:
        assert await self.unseal(sealed) == secret
        before = parse_sealed(sealed)
        return [format_sealed(replace(before, values={**before.values, pcr: value})) for value in values]

    @override
    async def unseal(self, sealed: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        if self.is_locked:
            raise UserError("PCR 11 is locked until the next boot")
        found = parse_sealed(sealed)
        for pcr, value in found.values.items():
            if self.pcrs[pcr].encode() != value:
                raise UserError(f"PCR {pcr} has changed since the key was sealed")
        return found.private

    @override
    async def begin(self) -> bool:
        await trio.lowlevel.checkpoint()
        return self.is_measured

    @override
    async def lock(self) -> None:
        await trio.lowlevel.checkpoint()
        self.is_locked = True


def _seal(secret: bytes, values: Mapping[int, bytes]) -> bytes:
    sealed = SealedSecret(
        private=secret, public=b"", pcrs=tuple(values), policy=b"", key_name=b"", values=values
    )
    return format_sealed(sealed)
