"""The life of a daemon's process: both event loops, signals, the last resort for errors."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import outcome
import trio

from talos.rpc.bridge import Bridge
from talos.rpc.guest import start_guest_run
from talos.system.logging import Log, collect_library_logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """What a daemon's main function gets.

    ``stopping`` is set by SIGTERM or SIGINT; main shall then finish what it does and return.
    ``interrupted`` is set before it, by SIGINT.
    """

    name: str
    bridge: Bridge
    stopping: trio.Event
    log: Log
    interrupted: trio.Event = field(default_factory=trio.Event)


def run(main: Callable[[Daemon], Awaitable[None]], *, name: str, log: Log | None = None) -> None:
    """Run a trio function as a daemon until it returns; exit with 1 when it fails."""
    log = log or Log({"service": name})
    collect_library_logs(log)
    try:
        asyncio.run(host(main, name, log))
    except Exception:
        log.exception("daemon failed")
        sys.exit(1)


async def host(main: Callable[[Daemon], Awaitable[None]], name: str, log: Log) -> None:
    """On asyncio: run a trio function as the guest of this loop."""
    loop = asyncio.get_running_loop()
    daemon = Daemon(name=name, bridge=Bridge(), stopping=trio.Event(), log=log)

    def interrupt() -> None:
        daemon.interrupted.set()
        daemon.stopping.set()

    # Before trio starts: the first handler arms the wakeup fd that trio relies on.
    loop.add_signal_handler(signal.SIGTERM, daemon.stopping.set)
    loop.add_signal_handler(signal.SIGINT, interrupt)
    done: asyncio.Future[outcome.Outcome[None]] = loop.create_future()
    start_guest_run(main, daemon, done=done.set_result)
    (await done).unwrap()
