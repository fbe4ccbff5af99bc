"""containerd, for the system's own containers."""

from pathlib import Path

from talos.machined.containerd.client import SYSTEM_ROOT, SYSTEM_SOCKET
from talos.machined.containerd.config import KUBERNETES, UNUSED, VERSION, make_unpacking
from talos.machined.containerd.toml import format_toml
from talos.machined.services.health import HealthCheck, ServingProbe
from talos.machined.services.spec import Directory, Execute, ServiceContext, ServiceSpec
from talos.process.daemons import RUN
from talos.system.cgroups import MIB, Limits

CONFIG = "/system/etc/containerd/config.toml"
MAX_SILENCE = 60.0
"""Seconds without an answer after which an instance is taken for hung and replaced; containers go on."""
START_TIMEOUT = 300.0
"""Seconds for its first answer: it opens its database first, perhaps on a slow disk."""


async def _configure(_context: ServiceContext) -> None:
    write_file(CONFIG, make_config())


def write_file(path: str, text: str) -> None:
    """Write a small file in memory, with its folders."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


def make_config() -> str:
    """Containerd for the system's own containers, in namespace ``system``; without Kubernetes' part."""
    return format_toml(
        {
            "version": VERSION,
            "root": SYSTEM_ROOT,
            "state": f"{RUN}/containerd",
            "disabled_plugins": [*UNUSED, *KUBERNETES],
            "grpc": {"address": SYSTEM_SOCKET},
            "debug": {"format": "json"},
            **make_unpacking(SYSTEM_ROOT),
        }
    )


CONTAINERD = ServiceSpec(
    id="containerd",
    start=Execute(argv=("/usr/bin/containerd", "--config", CONFIG)),
    health=HealthCheck(probe=ServingProbe(SYSTEM_SOCKET), silence=MAX_SILENCE, start_timeout=START_TIMEOUT),
    prepare=_configure,
    directories=(Directory(path=f"{RUN}/containerd", mode=0o711),),
    group="system/runtime",
    limits=Limits(minimum=48 * MIB, low=96 * MIB, millicores=500),
    oom_score_adj=-999,
)
