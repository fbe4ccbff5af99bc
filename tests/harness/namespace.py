"""Network namespaces of tests: a trio function in a process and a network of its own, as a daemon runs."""

import ctypes
from collections.abc import Awaitable, Callable

import trio
from tests.harness.forked import run_forked

from talos.process.run import Daemon, run
from talos.system.logging import Log
from talos.system.net.links import Links

_CLONE_NEWNS, _CLONE_NEWNET = 0x20000, 0x40000000
TEST_TIMEOUT = 180.0
"""Seconds in which a test's function has to end."""
HANG_DELAY = 30.0
"""Seconds after that in which its process has to end: what blocks the event loop outlives trio's time-out."""


def unshare_network() -> None:
    """Give this process a network of its own, and a view of it in /sys."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_CLONE_NEWNET | _CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    private = 1 << 18 | 1 << 14
    library.mount(b"none", b"/", None, private, None)
    library.mount(b"sysfs", b"/sys", b"sysfs", 0, None)


async def start_loopback(links: Links) -> None:
    """Bring up what every network has."""
    [index] = [link.index for link in await links.links() if link.name == "lo"]
    await links.set_link(index, up=True)


def run_in_namespace(function: Callable[[Daemon], Awaitable[None]], *, timeout: float = TEST_TIMEOUT) -> None:
    """Run a test's function in a new network; what fails there fails here. ``timeout`` in seconds."""

    def run_there() -> None:
        unshare_network()
        failures: list[BaseException] = []

        async def limited(daemon: Daemon) -> None:
            try:
                with trio.fail_after(timeout):
                    await function(daemon)
            except BaseException as error:
                failures.append(error)
                raise

        try:
            run(limited, name="test", log=Log(write=lambda _: None))
        except SystemExit:
            raise failures[0] from None

    run_forked(run_there, timeout=timeout + HANG_DELAY)
