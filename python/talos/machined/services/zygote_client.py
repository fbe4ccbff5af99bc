"""PID 1's client of the zygote: fork daemons through it, and replace it when it ends."""

import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Sequence

import trio

from talos.machined.services.reaper import Child, Reaper
from talos.machined.services.zygote import PID_FORMAT, ZYGOTE_FD, ForkRequest

ANSWER_LIMIT = 10.0
"""Seconds in which a zygote has to answer; a fork takes milliseconds."""
FIRST_ANSWER_LIMIT = 60.0
"""The same for its first answer: it may have to import all modules before, while the machine boots."""


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
        self._limit = FIRST_ANSWER_LIMIT

    async def fork(self, request: ForkRequest, output: int, ready: int) -> Child:
        """Start a daemon that writes to ``output`` and reports readiness on ``ready``.

        Shielded from cancellation: a process that was started has to be registered.
        """
        async with self._lock:
            children: list[Child] = []
            with trio.CancelScope(shield=True):
                with trio.move_on_after(self._limit) as limit:
                    children.append(await self._request(request, output, ready))
                if limit.cancelled_caught:
                    # A daemon forked by now can't report its pid any more, and ends.
                    if not self.process.has_ended:
                        os.kill(self.process.pid, signal.SIGKILL)
                    raise ZygoteLostError(
                        f"the zygote did not answer within {self._limit:.0f} s, it is replaced"
                    )
                self._limit = ANSWER_LIMIT
            return children[0]

    async def _request(self, request: ForkRequest, output: int, ready: int) -> Child:
        with self._reaper.expecting():
            try:
                await self._socket.sendmsg([request.encode()], _rights([output, ready]))
                answer = await self._socket.recv(64)
            except OSError as error:
                raise ZygoteLostError(str(error)) from error
            if not answer:
                raise ZygoteLostError("the zygote has ended")
            (pid,) = struct.unpack(PID_FORMAT, answer)
            if not pid:
                raise ZygoteLostError("the daemon ended before its main function")
            return self._reaper.register(pid)

    async def supervise(self, report: Callable[[str], None]) -> None:
        """Replace the zygote whenever it ends; its successor is a new interpreter instead of a fork."""
        while True:
            code = await self.process.wait()
            report(f"the zygote ended with {code}, starting another one")
            async with self._lock:
                self._socket.close()
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    pid = spawn_zygote(theirs.fileno())
                self._connect(ours, pid)
            await trio.sleep(1)


def spawn_zygote(fd: int) -> int:
    """Start a zygote in an interpreter of its own; ``fd`` becomes its socket."""
    path = [entry for entry in sys.path if entry]
    # The first argument must be the interpreter's path: Python finds its library by it.
    program = (
        f"import sys; sys.path[:] = {path!r}; from talos.daemon.bundle import BUNDLES, install; "
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
