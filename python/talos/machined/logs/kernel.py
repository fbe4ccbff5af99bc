"""The kernel's log as the API shows it, and writing to it."""

import os
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress

import trio

from talos.api.rpc import Code, RpcError
from talos.system.kmsg import DEVICE, LINE_SIZE, KmsgReader, format_message

PREFIX = "[talos] "
"""Prefix of machined's own lines."""


class DeviceKernelLog:
    """The log of the running kernel."""

    def __init__(self, device: str = DEVICE) -> None:
        self._device = device

    @asynccontextmanager
    async def read(self, *, follow: bool = False, tail: bool = False) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Messages, one formatted line each; see :meth:`talos.machined.node.ports.logs.KernelLog.read`."""
        try:
            reader = KmsgReader(from_now=tail, device=self._device)
        except OSError as error:
            raise RpcError(
                Code.FAILED_PRECONDITION, f"the kernel's log can't be read here: {error.strerror}"
            ) from None
        try:
            async with aclosing(_iterate(reader, follow=follow)) as lines:
                yield lines
        finally:
            reader.close()


async def _iterate(reader: KmsgReader, *, follow: bool) -> AsyncGenerator[bytes]:
    booted = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
    while True:
        for message in reader.read():
            yield (format_message(message, booted) + "\n").encode()
        if not follow:
            return
        await trio.lowlevel.wait_readable(reader.fd)


class KernelLogWriter:
    """Writes lines into the kernel's log, so that they reach the console and outlive the process."""

    def __init__(self, device: str = DEVICE) -> None:
        self._fd = os.open(device, os.O_WRONLY | os.O_CLOEXEC)

    def write(self, line: str) -> None:
        """Write one line; lost when the kernel refuses."""
        with suppress(OSError):
            # The kernel shows no line that could still be continued: without its end the last one
            # stays invisible, on the console and to readers, until the next one is written.
            os.write(self._fd, f"<30>{PREFIX}{line}".encode()[:LINE_SIZE] + b"\n")
