"""The summary screen: draws when something changed, at most once a second."""

import re

import trio
from google.protobuf.message import Message

from talos.machined.node.ports.services import Services
from talos.machined.screen.collect import WATCHED, Collector
from talos.machined.screen.painter import Painter
from talos.machined.screen.render import render
from talos.pki.certificate import parse_certificate, spki_fingerprint
from talos.resource.kind import Kind
from talos.resource.state import State
from talos.system.files import Files
from talos.system.kmsg import KmsgReader
from talos.system.logging import Log
from talos.system.proc.cmdline import Cmdline
from talos.system.terminal import NUMBER, Terminal, VirtualTerminal, has_screen, show_messages
from talos.system.wakeup import Wakeup

DRAW_INTERVAL = 1.0
"""Seconds between two drawings."""
MEASURE_INTERVAL = 10.0
"""Seconds between two measurements of load and memory without other changes."""
_DEBUG = "debug"
_TIMESTAMP = re.compile(r"^(\[talos\] )\d{4}-\d\d-\d\dT[\d:.]+Z ")
"""The timestamp of machined's own lines, redundant with the kernel's."""


def open_terminal(arguments: Cmdline, log: Log) -> Terminal | None:
    """The terminal to draw on; None where there is none, or none is wanted."""
    if arguments.is_on("talos.dashboard.disabled") or not has_screen():
        return None
    device = arguments.first("talos.dashboard.console")
    name = device.removeprefix("/dev/") or f"tty{NUMBER}"
    number = name.removeprefix("tty")
    if not number.isdecimal() or not 0 < int(number) < 64:
        log.warning("talos.dashboard.console is not a virtual terminal, using the default", value=device)
        number = str(NUMBER)
    try:
        return VirtualTerminal(int(number))
    except OSError as error:
        log.warning("there is no summary screen", terminal=f"tty{number}", reason=str(error))
        return None


def read_fingerprint(pem: bytes) -> str:
    """The fingerprint of the first certificate."""
    return spki_fingerprint(parse_certificate(pem))


class Screen:
    """Draws a collector's summary; :meth:`change` schedules a redraw."""

    def __init__(self, collector: Collector, terminal: Terminal) -> None:
        self._collector = collector
        self._terminal = terminal
        self._painter = Painter(terminal)
        self._changed = Wakeup()
        self.change()

    def change(self) -> None:
        """Schedule a redraw."""
        self._changed.set()

    async def run(self) -> None:
        """Draw until cancelled."""
        measured = -MEASURE_INTERVAL
        while True:
            with trio.move_on_after(MEASURE_INTERVAL):
                await self._changed.wait()
            if trio.current_time() - measured >= MEASURE_INTERVAL:
                self._collector.measure()
                measured = trio.current_time()
            size = self._terminal.size()
            self._painter.paint(render(await self._collector.collect(), *size), size)
            await trio.sleep(DRAW_INTERVAL)

    async def follow_state(self, state: State, kind: Kind[Message]) -> None:
        """Draw when resources of a kind change."""
        async with state.watch(kind) as batches:
            async for _ in batches:
                self.change()

    async def follow_messages(self, reader: KmsgReader) -> None:
        """Redraw when a message is written to the kernel's log."""
        while True:
            for message in reader.read():
                if message.priority != _DEBUG:
                    text = _TIMESTAMP.sub(r"\1", message.text)
                    self._collector.log.append(f"[{message.seconds:9.3f}] {text}")
                    self.change()
            await trio.lowlevel.wait_readable(reader.fd)


async def run_screen(state: State, files: Files, services: Services, arguments: Cmdline, log: Log) -> None:
    """Show the screen on a machine that has one."""
    terminal = open_terminal(arguments, log)
    if terminal is None:
        return
    collector = Collector(
        state=state,
        files=files,
        services=lambda: [*services.list()],
        fingerprint_of=read_fingerprint,
    )
    screen = Screen(collector, terminal)
    try:
        async with trio.open_nursery() as nursery:
            for kind in WATCHED:
                nursery.start_soon(screen.follow_state, state, kind)
            nursery.start_soon(screen.follow_messages, KmsgReader())
            await screen.run()
    except Exception:
        log.exception("the summary screen failed and is not restarted")
        show_messages()
