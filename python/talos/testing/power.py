"""The power switch in memory."""

from dataclasses import dataclass, field

from talos.system.power import PowerAction


@dataclass(slots=True)
class MemoryPower:
    """Remembers what was asked for."""

    pressed: list[PowerAction] = field(default_factory=list[PowerAction])
    flushed: int = 0

    def press(self, action: PowerAction) -> None:
        """Remember what was asked for."""
        self.pressed.append(action)

    def flush(self) -> None:
        """Count."""
        self.flushed += 1
