"""OOMAction: which control group was ended before the node had no memory left for itself.

It is a part of PID 1: it has to be able to end every process, and to act when others stand still. Nothing is
measured while no process waits for memory: the kernel reports when that begins.
"""

import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, override

import trio

from talos.api.definitions.runtime_pb2 import OOMActionSpec
from talos.config.active import read_config
from talos.config.effective import machine as effective
from talos.config.model import Config
from talos.machined.node import oom
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.pressure import NODE, PressureTrigger, kill_group, parse_pressure
from talos.system.proc.meminfo import parse_meminfo
from talos.system.wakeup import Wakeup

if TYPE_CHECKING:
    from talos.config.cel.compile import Expression

SAMPLE_INTERVAL = 0.5
"""Seconds, as upstream."""
STALL, WINDOW = 40_000, 2_000_000
"""Microseconds: less than any pressure at which the default trigger holds.

A window of anything but multiples of two seconds takes more rights."""
QUIET_PERIOD = 10.0
"""Seconds without pressure, after which nothing is measured any more, and a trigger counts as passed."""
KEPT_ACTIONS = 50
END_TIMEOUT = 20.0
"""Seconds in which nothing more ends while processes of the last group do: their memory is free soon."""
MEMINFO = Path("/proc/meminfo")

type Trigger = Callable[[oom.Variables], bool]
type Score = Callable[[oom.Candidate], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """An OOMConfig, compiled. ``is_custom``: the trigger is a user's, which may hold without pressure."""

    trigger: Trigger = oom.is_triggered
    score: Score = oom.rank
    is_strict: bool = True
    interval: float = SAMPLE_INTERVAL
    is_custom: bool = False


class OOMController(Controller):
    """MachineConfig, the pressure on memory → ends a group, OOMAction."""

    name = "runtime.OOMController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.OOM_ACTION),)

    def __init__(
        self,
        log: Log,
        *,
        root: Path = oom.ROOT,
        pressure: Path = NODE,
        meminfo: Path = MEMINFO,
        open_trigger: Callable[[], PressureTrigger] = lambda: PressureTrigger(STALL, WINDOW),
        kill: Callable[[Path], Awaitable[Sequence[str]]] = kill_group,
    ) -> None:
        self._log = log
        self._root, self._pressure, self._meminfo = root, pressure, meminfo
        self._open_trigger, self._kill = open_trigger, kill
        self._settings = Settings()
        self._changed = Wakeup()
        self._pressed = -float("inf")
        self._before: oom.Sample | None = None
        self._last_trigger = -float("inf")
        self._last_without_candidate = -float("inf")
        self._ended: Path | None = None
        self._count = 0
        self._kept: deque[str] = deque()

    @override
    async def run(self, runtime: ControllerRuntime) -> None:
        try:
            trigger = self._open_trigger()
        except OSError as error:
            self._log.warning("memory pressure is not watched", reason=error.strerror)
            return
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, trigger)
                nursery.start_soon(self._measure, runtime)
                async for _ in runtime.events():
                    self._settings = make_settings(await read_config(runtime), self._log)
                    self._changed.set()
                    runtime.reset_backoff()
        finally:
            trigger.close()

    async def _watch(self, trigger: PressureTrigger) -> None:
        while True:
            await trigger.wait()
            self._pressed = trio.current_time()
            self._changed.set()

    async def _measure(self, runtime: ControllerRuntime) -> None:
        while True:
            await self._changed.wait()
            self._before = None
            while self._settings.is_custom or trio.current_time() < self._pressed + QUIET_PERIOD:
                await self._sample(runtime)
                await trio.sleep(self._settings.interval)

    async def _sample(self, runtime: ControllerRuntime) -> None:
        settings, now = self._settings, trio.current_time()
        sample = oom.take_sample(now, parse_pressure(self._pressure.read_text(encoding="ascii")), self._root)
        since = timedelta(seconds=min(now - self._last_trigger, 1e9))
        variables = oom.make_variables(sample, self._before, since)
        self._before = sample
        try:
            if not settings.trigger(variables) or not (settings.is_custom or self._is_short()):
                return
            if self._is_ending(now):
                return
            chosen = oom.choose(oom.find_candidates(self._root), settings.score, strict=settings.is_strict)
        except UserError as error:
            self._log.once(f"an expression of OOMConfig has no value: {error}", key="expression")
            return
        await self._act(runtime, variables, chosen)

    def _is_ending(self, now: float) -> bool:
        is_late = now > self._last_trigger + END_TIMEOUT
        return self._ended is not None and not is_late and oom.has_processes(self._ended)

    def _is_first_without_candidate(self) -> bool:
        """Whether this trigger, which ends nothing, is the first one: it may hold for hours.

        It has no part in ``time_since_trigger``, by which it would seem to pass and to come again.
        """
        now = trio.current_time()
        is_new = now > self._last_without_candidate + QUIET_PERIOD + self._settings.interval
        self._last_without_candidate = now
        return is_new

    def _is_short(self) -> bool:
        return oom.is_short(parse_meminfo(self._meminfo.read_text(encoding="ascii")))

    async def _act(
        self, runtime: ControllerRuntime, variables: oom.Variables, chosen: tuple[oom.Candidate, float] | None
    ) -> None:
        processes: Sequence[str] = ()
        score = 0.0
        if chosen is None:
            if not self._is_first_without_candidate():
                return
            self._log.warning("no eligible cgroup to kill")
        else:
            candidate, score = chosen
            try:
                processes = await self._kill(candidate.path)
            except OSError as error:  # another one is chosen at the next sample
                self._log.error(
                    "a group could not be ended", group=str(candidate.path), reason=error.strerror
                )
                return
            self._ended = candidate.path
            self._last_trigger, self._last_without_candidate = trio.current_time(), -float("inf")
            self._log.warning(
                "memory runs out: a group was ended",
                group=str(candidate.path),
                processes=processes,
                score=score,
            )
        spec = OOMActionSpec(
            trigger_context=json.dumps(oom.to_json(variables)), score=score, processes=processes
        )
        name = str(self._count)
        self._count += 1
        await runtime.put(kinds.OOM_ACTION, name, spec)
        self._kept.append(name)
        if len(self._kept) > KEPT_ACTIONS:
            await runtime.remove(kinds.OOM_ACTION, self._kept.popleft())


def _evaluate(ranking: "Expression", candidate: oom.Candidate) -> float:
    return float(ranking.evaluate(oom.describe(candidate)))


def make_settings(config: Config | None, log: Log) -> Settings:
    """The settings of the config, with its expressions compiled; a mistake in one leaves all defaults."""
    document = effective.oom(config) if config else None
    if document is None:
        return Settings()
    settings = Settings(
        is_strict=document.strict_cgroup_class_ordering is not False,
        interval=(document.sample_interval.seconds if document.sample_interval else 0.0) or SAMPLE_INTERVAL,
    )
    if not (document.trigger_expression or document.cgroup_ranking_expression):
        return settings
    # Most nodes have no expression.
    from talos.config.cel import environments
    from talos.config.cel.compile import compile_expression
    from talos.config.cel.types import DOUBLE

    where = "OOMConfig"
    try:
        if document.trigger_expression:
            trigger = compile_expression(document.trigger_expression, environments.OOM_TRIGGER, where=where)
            settings = replace(settings, trigger=trigger.is_true, is_custom=True)
        if document.cgroup_ranking_expression:
            ranking = compile_expression(
                document.cgroup_ranking_expression, environments.OOM_RANKING, where=where, result=DOUBLE
            )
            settings = replace(settings, score=partial(_evaluate, ranking))
    except UserError as error:
        log.once(f"the expressions of OOMConfig are not used: {error}", key="expression", level="error")
    return settings
