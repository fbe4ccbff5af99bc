"""The port to the keys of the TPM that have opened volumes: they can be sealed for starts to come.

A key that is bound to PCRs opens nothing once these are others. Before an upgrade that changes them, it is
sealed once more for each value to come, and kept in the volume's header beside what opens it now.
"""

from collections.abc import Collection, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from talos.system.block.luks_header import NextKey


class OpenKey(Protocol):
    """The key that has opened a volume. UserError with the reason, OSError when the disk fails."""

    @property
    def slot(self) -> int | None:
        """Its slot; None where it is no key of the TPM."""
        ...

    async def seal(self, pcr: int, values: Sequence[bytes]) -> Sequence[NextKey]:
        """It, sealed for each of these values that a PCR will have. UserError where the header has no room.

        Nothing is written.
        """
        ...

    async def write(self, keys: Sequence[NextKey]) -> None:
        """Keep these in the header, beside what is there."""
        ...

    async def has_next(self) -> bool:
        """Whether the header has keys for starts to come."""
        ...

    async def settle(self, pcr: int, values: Collection[bytes]) -> None:
        """Have the slot opened by the present value of a PCR, and remove keys for other ``values``."""
        ...


type OpenKeys = MutableMapping[str, OpenKey]
"""By the volumes that are in use."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Keys for the starts that an upgrade may lead to, not written yet."""

    opener: OpenKey
    keys: Sequence[NextKey]
