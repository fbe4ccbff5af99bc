"""``/proc/stat`` and ``/proc/loadavg``: what the processors did since the boot."""

from collections.abc import Sequence
from dataclasses import dataclass, field

TICKS = 100
"""Units per second of every time in /proc (USER_HZ, fixed by the kernel's ABI on all our machines)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes:
    """Seconds spent in each mode."""

    user: float = 0.0
    nice: float = 0.0
    system: float = 0.0
    idle: float = 0.0
    iowait: float = 0.0
    irq: float = 0.0
    soft_irq: float = 0.0
    steal: float = 0.0
    guest: float = 0.0
    guest_nice: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftIrqs:
    """Soft interrupts by kind."""

    hi: int = 0
    timer: int = 0
    net_tx: int = 0
    net_rx: int = 0
    block: int = 0
    block_io_poll: int = 0
    tasklet: int = 0
    sched: int = 0
    hrtimer: int = 0
    rcu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemStat:
    """Counters of the whole system; ``boot_time`` in seconds since the epoch."""

    boot_time: int = 0
    cpu_total: CpuTimes = field(default_factory=CpuTimes)
    cpu: tuple[CpuTimes, ...] = ()
    irq_total: int = 0
    irq: tuple[int, ...] = ()
    context_switches: int = 0
    process_created: int = 0
    process_running: int = 0
    process_blocked: int = 0
    soft_irq_total: int = 0
    soft_irq: SoftIrqs = field(default_factory=SoftIrqs)


def parse_stat(text: str) -> SystemStat:
    """The counters in the text of ``/proc/stat``. Lines of a newer kernel are passed over."""
    lines = [line.split() for line in text.splitlines() if line]
    values = {fields[0]: fields[1:] for fields in lines}
    irq = [int(word) for word in values.get("intr", ())]
    soft = [int(word) for word in values.get("softirq", ())]

    def number(key: str) -> int:
        return int(next(iter(values.get(key, ())), "0"))

    return SystemStat(
        boot_time=number("btime"),
        cpu_total=_parse_cpu(values.get("cpu", ())),
        cpu=tuple(
            _parse_cpu(fields[1:]) for fields in lines if fields[0][:3] == "cpu" and fields[0] != "cpu"
        ),
        irq_total=irq[0] if irq else 0,
        irq=tuple(irq[1:]),
        context_switches=number("ctxt"),
        process_created=number("processes"),
        process_running=number("procs_running"),
        process_blocked=number("procs_blocked"),
        soft_irq_total=soft[0] if soft else 0,
        soft_irq=_parse_soft(soft[1:]),
    )


def _parse_cpu(fields: Sequence[str]) -> CpuTimes:
    names = CpuTimes.__dataclass_fields__
    return CpuTimes(**{name: int(word) / TICKS for name, word in zip(names, fields, strict=False)})


def _parse_soft(numbers: Sequence[int]) -> SoftIrqs:
    return SoftIrqs(**dict(zip(SoftIrqs.__dataclass_fields__, numbers, strict=False)))


def parse_loadavg(text: str) -> tuple[float, float, float]:
    """The load of the last 1, 5 and 15 minutes from ``/proc/loadavg``."""
    one, five, fifteen = text.split()[:3]
    return float(one), float(five), float(fifteen)
