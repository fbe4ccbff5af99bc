"""What the runners of all services share."""

from dataclasses import dataclass

from talos.machined.logs.store import LogStore
from talos.machined.services.health import Connect
from talos.machined.services.reaper import Reaper
from talos.machined.services.spec import ServiceContext
from talos.machined.services.zygote_client import Zygote
from talos.system.cgroups import Groups
from talos.system.logging import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerContext:
    """What starts, limits and logs processes, and what services find out about the node."""

    reaper: Reaper
    zygote: Zygote
    logs: LogStore
    groups: Groups
    service: ServiceContext
    connect: Connect
    log: Log
