"""``BlackholeRouteConfig``: a destination whose packets are dropped."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import UINT32, Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class BlackholeRouteConfig(Document):
    """A destination whose packets are dropped."""

    kind: ClassVar[str] = "BlackholeRouteConfig"
    named: ClassVar[bool] = True

    name: str = setting("destination, a prefix", default="")
    metric: int | None = setting("priority of the route, lower wins", bounds=UINT32)
