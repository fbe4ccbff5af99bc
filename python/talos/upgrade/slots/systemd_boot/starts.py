"""The starts that were not confirmed, in a variable of the firmware's: systemd-boot counts none.

Early init counts them, before anything else (kernel/init/starts.c), PID 1 sets the count back. The variable
has the slot that was started first and a digit:

``B1`` to ``B3``  starts of slot B
``B4`` to ``B6``  starts of slot A, since slot B has not come up in three
``B6``            neither has come up: early init counts no more, and the default is started again and again

From the third start to the fifth, early init has systemd-boot start the other slot once more, the next time.
"""

import re
from dataclasses import dataclass, field

from talos.system.efi_variables import EfiVariables
from talos.upgrade.state import MAX_COUNT

VENDOR = "987bf9ed-892c-4a81-81b4-70c9b57e6222"
"""Of this system's own variables."""
NAME = "UnconfirmedStarts"
_STARTS = re.compile(rb"([AB])([1-%d])" % MAX_COUNT)


@dataclass(frozen=True, slots=True)
class Starts:
    """How often the system was started since the last confirmation, this time included, and which slot first.

    There is no slot where nothing was counted.
    """

    slot: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class StartCount:
    """The count. All methods block; OSError."""

    variables: EfiVariables = field(default_factory=lambda: EfiVariables(vendor=VENDOR))

    def read(self) -> Starts:
        """What early init has counted."""
        match = _STARTS.fullmatch(self.variables.read(NAME) or b"")
        return Starts(match[1].decode(), int(match[2])) if match else Starts()

    def reset(self) -> None:
        """Reset the count of starts."""
        self.variables.delete(NAME)

    def is_repeated(self) -> bool:
        """Whether the start before this one was not confirmed: early init has armed a watchdog then."""
        try:
            return self.read().count > 1
        except OSError:
            return False
