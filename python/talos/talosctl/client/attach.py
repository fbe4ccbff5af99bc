"""This terminal, or whatever stands in for it, joined to a container on a node."""

import asyncio
import fcntl
import os
import signal
import struct
import sys
import termios
import threading
import tty
from collections.abc import Generator
from contextlib import contextmanager, nullcontext, suppress

from talos.api.machine.debug_pb2 import (
    DebugContainerRunRequest,
    DebugContainerRunRequestSpec,
    DebugContainerRunResponse,
    DebugContainerTerminalResize,
)
from talos.api.rpc import Code, RpcError
from talos.client.call import Call
from talos.client.session import Session
from talos.talosctl.output import console

CHUNK = 1024
"""Bytes of input in a message, as the existing client."""
MAX_WAITING = 64
"""Messages of input that are read and not sent yet."""
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)
METHOD = "/machine.DebugService/ContainerRun"


async def run_container(session: Session, node: str, spec: DebugContainerRunRequestSpec) -> int:
    """Run a container with this process's input, output and signals; its exit code. RpcError."""
    requests = _Requests(spec)
    with _raw_terminal() if spec.tty else nullcontext():
        async with session.duplex(node, METHOD, DebugContainerRunResponse) as call:
            sending = asyncio.create_task(requests.send(call))
            try:
                with requests.forwarded_signals(with_size=spec.tty):
                    threading.Thread(target=requests.read, args=(sys.stdin.fileno(),), daemon=True).start()
                    return await _show_output(call, requests)
            finally:
                sending.cancel()


async def _show_output(call: Call[DebugContainerRunResponse], requests: "_Requests") -> int:
    """Show output until the node ends the call: after the exit code, once the requests have ended."""
    code: int | None = None
    while (reply := await call.receive()) is not None:
        if reply.HasField("exit_code"):
            code = reply.exit_code
            requests.end()
        else:
            console.write_bytes(reply.stdout_data)
            console.flush_bytes()
    if code is None:
        raise RpcError(Code.INTERNAL, "the node sent no exit code")
    return code


class _Requests:
    """What goes to the node, in order, from a thread that reads the input and from signals."""

    def __init__(self, spec: DebugContainerRunRequestSpec) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[DebugContainerRunRequest | None] = asyncio.Queue()
        self._room = threading.Semaphore(MAX_WAITING)
        self._queue.put_nowait(DebugContainerRunRequest(spec=spec))
        if spec.tty:
            self._put_size()

    async def send(self, call: Call[DebugContainerRunResponse]) -> None:
        """Send until the input ends. A node's end of the call is reported by its reader."""
        while (request := await self._queue.get()) is not None:
            if not await call.send(request):
                return
            if request.HasField("stdin_data"):
                self._room.release()
        call.end()

    def read(self, fd: int) -> None:
        """Read input until it ends. It blocks: terminals, pipes and files have no other way in common."""
        with suppress(OSError, RuntimeError):  # the terminal is gone; the loop is, as all is done
            while True:
                self._room.acquire()
                data = os.read(fd, CHUNK)
                request = DebugContainerRunRequest(stdin_data=data) if data else None
                self._loop.call_soon_threadsafe(self._queue.put_nowait, request)
                if not data:
                    return

    def end(self) -> None:
        """Send nothing more: the container has ended."""
        self._queue.put_nowait(None)

    @contextmanager
    def forwarded_signals(self, *, with_size: bool) -> Generator[None]:
        """Signals to this process go to the container; changes of the terminal's size, too."""
        for number in FORWARDED:
            self._loop.add_signal_handler(number, self._put_signal, number)
        if with_size:
            self._loop.add_signal_handler(signal.SIGWINCH, self._put_size)
        try:
            yield
        finally:
            for number in (*FORWARDED, signal.SIGWINCH):
                self._loop.remove_signal_handler(number)

    def _put_signal(self, number: signal.Signals) -> None:
        self._queue.put_nowait(DebugContainerRunRequest(signal=number))

    def _put_size(self) -> None:
        rows, columns = struct.unpack("HHHH", fcntl.ioctl(sys.stdin, termios.TIOCGWINSZ, bytes(8)))[:2]
        size = DebugContainerTerminalResize(width=columns, height=rows)
        self._queue.put_nowait(DebugContainerRunRequest(term_resize=size))


@contextmanager
def _raw_terminal() -> Generator[None]:
    """Pass every key on as it is pressed; the terminal is put back in the end."""
    before = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
