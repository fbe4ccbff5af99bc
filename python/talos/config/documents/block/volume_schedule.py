"""Intervals of trims and checks of a volume."""

from dataclasses import dataclass

from talos.config.schema import Section, setting
from talos.config.values import Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimConfig(Section):
    """Regular discard of unused blocks of this volume."""

    enabled: bool | None = setting("enable it")
    interval: Duration | None = setting("time between two runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubConfig(Section):
    """Regular check of this volume."""

    enabled: bool | None = setting("enable it")
    interval: Duration | None = setting("time between two runs")
