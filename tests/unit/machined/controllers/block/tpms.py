"""A TPM in memory: the twin of the machine's."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import override

import trio

from talos.machined.node.tpm_keys import TpmKeys
from talos.system.errors import UserError


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
        return json.dumps({"secret": secret.hex(), "pcrs": {pcr: self.pcrs[pcr] for pcr in pcrs}}).encode()

    @override
    async def unseal(self, sealed: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        if self.is_locked:
            raise UserError("PCR 11 is locked until the next boot")
        found = json.loads(sealed)
        for pcr, value in found["pcrs"].items():
            if self.pcrs[int(pcr)] != value:
                raise UserError(f"PCR {pcr} has changed since the key was sealed")
        return bytes.fromhex(found["secret"])

    @override
    async def begin(self) -> bool:
        await trio.lowlevel.checkpoint()
        return self.is_measured

    @override
    async def lock(self) -> None:
        await trio.lowlevel.checkpoint()
        self.is_locked = True
