"""``ZswapConfig``: compressed cache in front of swap."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ZswapConfig(Document):
    """Compressed cache in front of swap."""

    kind: ClassVar[str] = "ZswapConfig"

    max_pool_percent: int | None = setting("largest share of memory, in percent")
    shrinker_enabled: bool | None = setting("shrink the pool under memory pressure")
