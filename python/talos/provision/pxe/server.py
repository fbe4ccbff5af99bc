"""Serve until a signal: the web server in threads, dnsmasq as a child whose log we read."""

import os
import signal
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from talos.provision.pxe.dnsmasq import Loaders, make_arguments
from talos.provision.pxe.network import BootNetwork
from talos.provision.pxe.tools import Tools
from talos.provision.pxe.web import Site, make_server
from talos.system.errors import UserError
from talos.system.process import describe_exit, start_command

_STOPPED = (0, -signal.SIGTERM, -signal.SIGINT)
_LAST_WORDS = 3


def serve(
    place: BootNetwork,
    site: Site,
    tools: Tools | None,
    *,
    efi: str,
    describe: Callable[[str], str],
    show: Callable[[str], None],
) -> None:
    """Serve on ``place`` until SIGINT or SIGTERM; without ``tools`` the web server alone.

    ``efi`` is the name of iPXE's UEFI program; ``describe`` makes a line to show of one of dnsmasq's.
    """
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    server = make_server(site, str(place.address.ip), place.port, show)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    show(f"web server: {place.url}")
    try:
        if tools is None:
            while not stopping.wait(1):
                pass
        else:
            with tempfile.TemporaryDirectory(prefix="pxe-") as folder:
                Path(folder).chmod(0o711)  # dnsmasq gives up being root
                loaders = Loaders(folder=tools.ipxe, efi=efi)
                argv = [*tools.dnsmasq, *make_arguments(place, loaders, Path(folder, "leases"))]
                _run_dnsmasq(argv, stopping, describe, show)
    finally:
        server.shutdown()
        server.server_close()


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
                    last = [*last, line.strip()][-_LAST_WORDS:]
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
