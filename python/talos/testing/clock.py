"""A clock in memory, which runs with trio's clock."""

from dataclasses import dataclass, field

import trio

from talos.system.clock import Adjtime, Leap


@dataclass(slots=True)
class MemoryClock:
    """A clock that lacks ``lag`` seconds and records what was done to it. A slew takes effect at once."""

    start: float
    """The true time when it is made, in seconds since 1970."""
    lag: float = 0.0
    steps: list[float] = field(default_factory=list[float])
    slews: list[float] = field(default_factory=list[float])
    leap: Leap = Leap.NONE
    constant: int = 0
    synced: bool = False
    _made: float = field(default_factory=trio.current_time)

    def true_time(self) -> float:
        """What a good server's clock shows."""
        return self.start + trio.current_time() - self._made

    def now(self) -> float:
        """What this clock shows."""
        return self.true_time() - self.lag

    def step(self, offset: float) -> None:
        """Take effect."""
        self.lag -= offset
        self.steps.append(offset)

    def slew(self, offset: float, *, constant: int, error: float, leap: Leap) -> None:
        """Take effect."""
        del error
        self.lag -= offset
        self.slews.append(offset)
        self.constant, self.leap, self.synced = constant, leap, True

    def read(self) -> Adjtime:
        """The state."""
        return Adjtime(
            offset=0.0,
            frequency_ratio=1.0,
            max_error=0.0,
            est_error=0.0,
            status="PLL" if self.synced else "UNSYNC",
            constant=self.constant,
            synced=self.synced,
            state="TIME_OK" if self.synced else "TIME_ERROR",
        )
