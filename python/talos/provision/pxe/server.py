"""Serve until a signal: the web server in threads, dnsmasq as a child whose log we read."""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from talos.provision.pxe.dnsmasq import describe_line
from talos.provision.pxe.machines import Machines
from talos.provision.pxe.network import BootNetwork
from talos.provision.pxe.page import serve_page
from talos.provision.pxe.web import Site, make_server
from talos.system.errors import UserError
from talos.system.process import describe_exit, start_command

_STOPPED = (0, -signal.SIGTERM, -signal.SIGINT)
_LAST_LINES = 3


def serve(
    place: BootNetwork,
    site: Site,
    make_argv: Callable[[Path], list[str]] | None,
    *,
    describe: Callable[[str], str],
    show: Callable[[str], None],
) -> None:
    """Serve on ``place`` until SIGINT or SIGTERM; without ``make_argv`` the web server alone.

    That makes dnsmasq's argv, by a file that it may write; ``describe`` a line to show of one of its log.
    """
    stopping = threading.Event()
    machines = Machines()

    def record(line: str) -> None:
        machines.record(line, time.time())

    def show_request(line: str) -> None:
        record(line)
        show(line)

    def describe_and_record(line: str) -> str:
        record(describe_line(line))
        return describe(line)

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    server = make_server(site, str(place.address.ip), place.port, show_request)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with _show_page(machines, show):
            show(f"web server: {place.url}")
            if make_argv is None:
                while not stopping.wait(1):
                    pass
            else:
                with tempfile.TemporaryDirectory(prefix="pxe-") as folder:
                    Path(folder).chmod(0o711)  # dnsmasq gives up being root
                    argv = make_argv(Path(folder, "leases"))
                    _run_dnsmasq(argv, stopping, describe_and_record, show)
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _show_page(machines: Machines, show: Callable[[str], None]) -> Generator[None]:
    """Serve the page; machines boot without it, too, as where the loopback interface is down."""
    with ExitStack() as stack:
        try:
            show(f"a page of the machines: {stack.enter_context(serve_page(machines))}")
        except OSError as error:
            show(f"no page of the machines: can't listen on the loopback interface: {error.strerror}")
        yield


def _run_dnsmasq(
    argv: list[str], stopping: threading.Event, describe: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Read its log until it ends; ends it when we shall stop."""
    reader, writer = os.pipe()
    process = start_command(argv, stdout=writer, stderr=writer, new_session=True)
    os.close(writer)

    def end_with_us() -> None:
        while process.poll() is None:
            if stopping.wait(0.5):
                process.terminate()
                return

    threading.Thread(target=end_with_us, daemon=True).start()
    last: list[str] = []
    try:
        with os.fdopen(reader, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.strip():
                    last = [*last, line.strip()][-_LAST_LINES:]
                if text := describe(line):
                    show(text)
    finally:
        process.terminate()
        code = process.wait()
    if code not in _STOPPED and not stopping.is_set():
        raise UserError(
            f"ended with {describe_exit(code)}: {' / '.join(last)}",
            where="dnsmasq",
            hint="another DHCP or TFTP server on this machine?",
        )
