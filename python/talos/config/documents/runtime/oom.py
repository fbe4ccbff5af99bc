"""``OOMConfig``: what happens when memory runs out."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting
from talos.config.values import Duration, Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class OOMConfig(Document):
    """What happens when memory runs out."""

    kind: ClassVar[str] = "OOMConfig"

    trigger_expression: Expression | None = setting("condition of memory pressure")
    cgroup_ranking_expression: Expression | None = setting("rank of a cgroup; the highest is killed first")
    strict_cgroup_class_ordering: bool | None = setting("never touch a higher class before a lower one")
    sample_interval: Duration | None = setting("time between measurements")
