"""Which faults happen to which nodes in which order: all of it follows from a seed."""

import enum
import random
from dataclasses import dataclass


class Kind(enum.Enum):
    """What happens. Container nodes share this machine's clock, so it is never touched: no clock jumps."""

    KILL_PROCESS = "kill a process"
    KILL_ETCD = "kill etcd"
    KILL_INIT = "kill init"
    KILL_TWO = "kill two inits"
    RESTART_LOOP = "kill etcd again and again"
    STALL = "stop etcd for a while"
    PARTITION = "cut off"
    ONE_WAY = "cut off, one way"
    DISK_FULL = "fill the disk"
    DISK_SLOW = "slow down the disk"
    RENEW = "renew certificates"


LASTING = {
    Kind.RESTART_LOOP: (3.0, 6.0),
    Kind.STALL: (3.0, 6.0),
    Kind.PARTITION: (3.0, 8.0),
    Kind.ONE_WAY: (3.0, 8.0),
    Kind.DISK_FULL: (3.0, 6.0),
    Kind.DISK_SLOW: (4.0, 8.0),
}
"""Seconds, at least and at most, until the fault is mended; others happen at once."""
FAULT_INTERVALS = (0.5, 4.0)
"""Seconds until the next fault: it hits nodes that are still busy with the one before."""
WEIGHTS = {Kind.KILL_PROCESS: 4, Kind.RENEW: 2}
"""How often a kind occurs before every other one has occurred again; else once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``nodes`` are indices; ``seconds`` until it is mended, ``pause`` after that.

    ``chance``, from 0 to 1, chooses among what a node has when the fault happens.
    """

    kind: Kind
    nodes: tuple[int, ...]
    seconds: float
    pause: float
    chance: float

    def __str__(self) -> str:
        lasting = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.kind.value}: node {', '.join(str(node + 1) for node in self.nodes)}{lasting}"


def make_plan(seed: int, nodes: int, seconds: float) -> list[Fault]:
    """Faults for about so many seconds; every kind occurs before one occurs anew."""
    chance = random.Random(seed)
    plan: list[Fault] = []
    while True:
        kinds = [kind for kind in Kind for _ in range(WEIGHTS.get(kind, 1))]
        chance.shuffle(kinds)
        for kind in kinds:
            fault = _make_fault(kind, nodes, chance)
            seconds -= fault.seconds + fault.pause
            if seconds < 0:
                return plan
            plan.append(fault)


def _make_fault(kind: Kind, nodes: int, chance: random.Random) -> Fault:
    match kind:
        case Kind.KILL_TWO:
            count = 2
        case Kind.PARTITION:
            count = chance.randint(1, nodes // 2)
        case _:
            count = 1
    return Fault(
        kind=kind,
        nodes=tuple(sorted(chance.sample(range(nodes), count))),
        seconds=chance.uniform(*LASTING[kind]) if kind in LASTING else 0.0,
        pause=chance.uniform(*FAULT_INTERVALS),
        chance=chance.random(),
    )
