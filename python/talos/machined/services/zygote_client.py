"""PID 1's client of the zygote: fork daemons through it, and replace it when it ends."""

import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Sequence

import trio

from talos.machined.node.child import Child
from talos.machined.services.health import MIN_SILENCE_SHARE
from talos.machined.services.reaper import Reaper
from talos.machined.services.zygote import ZYGOTE_FD
from talos.machined.services.zygote_request import PID_FORMAT, Request, format_request
from talos.system.process import read_processor_times

ANSWER_TIMEOUT = 60.0
"""Seconds of silence after which a zygote hangs. A fork takes milliseconds, though all modules may have to be
imported before it. That its process ends is noticed at once, whatever the limit.
"""
TICK = 1.0
"""Seconds between two checks of it. Silence is counted in these: time in which PID 1 itself does not
run shows nothing about the zygote.
"""


class ZygoteLostError(Exception):
    """The zygote ended before it answered."""


class Zygote:
    """Starts daemons, one request after another."""

    def __init__(self, reaper: Reaper, connection: socket.socket, pid: int) -> None:
        self._reaper = reaper
        self._lock = trio.Lock()
        self._connect(connection, pid)

    def _connect(self, connection: socket.socket, pid: int) -> None:
        connection.setblocking(False)
        self._socket = trio.socket.from_stdlib_socket(connection)
        self.process = self._reaper.register(pid)

    async def fork(self, request: Request, output: int, *others: int) -> Child:
        """Start a process that writes to ``output``; ``others`` are the descriptors that its request needs.

        A daemon's are the pipe on which it reports readiness, and its listener if it has one.
        Shielded from cancellation: a process that was started has to be registered.
        """
        async with self._lock:
            children: list[Child] = []
            with trio.CancelScope(shield=True):
                children.append(await self._request(request, output, *others))
            return children[0]

    async def _request(self, request: Request, *descriptors: int) -> Child:
        with self._reaper.expecting():
            try:
                await self._socket.sendmsg([format_request(request)], _rights(descriptors))
                answer = await self._receive()
            except OSError as error:
                raise ZygoteLostError(str(error)) from error
            if not answer:
                raise ZygoteLostError("the zygote has ended")
            (pid,) = struct.unpack(PID_FORMAT, answer)
            if not pid:
                raise ZygoteLostError("no process could be made, its log has the reason")
            return self._reaper.register(pid)

    async def _receive(self) -> bytes:
        """The zygote's answer, empty when it has ended; ZygoteLostError, and its end, when it hangs."""
        ticks, silent, before = 0, 0.0, read_activity(self.process.pid)
        while silent < ANSWER_TIMEOUT:
            with trio.move_on_after(TICK):
                return await self._socket.recv(64)
            ticks += 1
            worked = read_activity(self.process.pid) - before
            silent = max(MIN_SILENCE_SHARE * ticks * TICK, ticks * TICK - worked)
        # A daemon forked by now can't report its pid any more, and ends.
        self.process.signal(signal.SIGKILL)
        raise ZygoteLostError(f"the zygote did not answer within {ticks * TICK:.0f} s, it is replaced")

    async def supervise(self, report: Callable[[str], None]) -> None:
        """Replace the zygote whenever it ends; its successor is a new interpreter instead of a fork."""
        while True:
            code = await self.process.wait()
            report(f"the zygote ended with {code}, starting another one")
            async with self._lock:
                try:
                    self._replace()
                except OSError as error:
                    report(f"no zygote can be started: {error}")
            await trio.sleep(1)

    def _replace(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                pid = spawn_zygote(theirs.fileno())
            except OSError:
                ours.close()
                raise
        self._socket.close()
        self._connect(ours, pid)


def read_activity(pid: int) -> float:
    """Seconds that a process has worked, or could have with a processor."""
    return sum(time.ran + time.waited for time in read_processor_times(pid).values())


def spawn_zygote(fd: int) -> int:
    """Start a zygote in an interpreter of its own; ``fd`` becomes its socket."""
    path = [entry for entry in sys.path if entry]
    # The first argument must be the interpreter's path: Python finds its library by it.
    program = (
        f"import sys; sys.path[:] = {path!r}; from talos.startup.bundle import BUNDLES, install; "
        f"install(BUNDLES); from talos.machined.services.zygote import main; main()"
    )
    return os.posix_spawn(
        sys.executable,
        [sys.executable, *(["-I", "-S"] if sys.flags.isolated else []), "-c", program],
        {**os.environ},
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, ZYGOTE_FD)],
        setsigmask=[],
    )


def _rights(fds: Sequence[int]) -> list[tuple[int, int, bytes]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))]
