"""Programs that the launcher runs in the cluster's network beside the nodes, as long as the cluster runs."""

import logging
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from talos.config.contract import API_SERVER_PORT
from talos.provision.cluster import DISCOVERY_PORT, MIRROR_PORT, ClusterRequest
from talos.provision.interpreter import interpreter_command
from talos.provision.store import ClusterFolder
from talos.system.process import describe_exit

log = logging.getLogger(__name__)

RESTART_DELAY = 1.0  # seconds


@dataclass(slots=True)
class Companion:
    """One program. Its output goes to a log named after it in the cluster's folder."""

    name: str
    argv: list[str]
    pid: int = 0
    start_at: float | None = 0.0
    """On the monotonic clock; None while it runs."""


def make_companions(request: ClusterRequest) -> list[Companion]:
    """What a cluster needs."""
    found: list[Companion] = []
    if request.discovery:
        argv = [
            *interpreter_command("talos.discovery.main"),
            "--addr",
            f"{request.services}:{DISCOVERY_PORT}",
        ]
        found.append(Companion("discovery", [*argv, "--metrics-addr", f"{request.services}:2122"]))
    if request.images is not None:
        argv = [*interpreter_command("talos.provision.mirror.server"), "--images", str(request.images)]
        found.append(Companion("mirror", [*argv, "--addr", f"{request.services}:{MIRROR_PORT}"]))
    if request.is_balanced:
        # It loads the messages of all resources, which no other launcher needs.
        from talos.process.daemons import TRUSTD

        argv = [*interpreter_command("talos.provision.balancer"), "--addr", str(request.services)]
        argv += ["--ports", str(API_SERVER_PORT), str(TRUSTD.port), "--servers", *map(str, request.endpoints)]
        found.append(Companion("balancer", argv))
    return found


class Companions:
    """Starts them, and again when one ends; kills them with the cluster."""

    def __init__(self, companions: Sequence[Companion], folder: ClusterFolder) -> None:
        self._companions = companions
        self._folder = folder

    @property
    def next_start(self) -> float | None:
        """When :meth:`start_due` has something to do."""
        return min((one.start_at for one in self._companions if one.start_at is not None), default=None)

    def start_due(self) -> None:
        """Start those that don't run and have waited long enough."""
        for one in self._companions:
            if one.start_at is not None and one.start_at <= time.monotonic():
                one.pid, one.start_at = self._start(one), None

    def note_end(self, pid: int, status: int) -> None:
        """A child of the launcher has ended; it may be one of these."""
        for one in self._companions:
            if one.pid == pid:
                log.warning("%s ended: %s", one.name, describe_exit(os.waitstatus_to_exitcode(status)))
                one.pid, one.start_at = 0, time.monotonic() + RESTART_DELAY

    def kill(self) -> None:
        """End them all."""
        for one in self._companions:
            if one.pid:
                os.kill(one.pid, signal.SIGKILL)
                os.waitpid(one.pid, 0)
            one.pid, one.start_at = 0, None

    def _start(self, one: Companion) -> int:
        output = os.open(
            self._folder.companion_log(one.name),
            os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC,
            0o600,
        )
        try:
            return os.posix_spawn(
                one.argv[0],
                one.argv,
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, output, 1),
                    (os.POSIX_SPAWN_DUP2, output, 2),
                ],
                setsigmask=[],
            )
        finally:
            os.close(output)
