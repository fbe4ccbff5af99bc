"""The power switch in memory."""

from dataclasses import dataclass, field

from talos.system.power import PowerAction


@dataclass(slots=True)
class MemoryPower:
    """Records what was requested."""

    pressed: list[PowerAction] = field(default_factory=list[PowerAction])
    flushed: int = 0

    def press(self, action: PowerAction) -> None:
        """Record what was requested."""
        self.pressed.append(action)

    def flush(self) -> None:
        """Count."""
        self.flushed += 1
