"""A server of grpcio as a program: its flags, and its run until a signal."""

import argparse
import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from talos.serving.address import parse_address
from talos.serving.endpoint import Endpoint, read_pair
from talos.serving.grpcio import wait_for_signal
from talos.system.errors import UserError
from talos.system.logging import Log

FAILED = 1


class Server(Protocol):
    """Listens between ``start`` and ``stop``."""

    async def start(self) -> None:
        """Listen; UserError when that is not possible."""
        ...

    async def stop(self) -> None:
        """Take no new calls, and end the open ones."""
        ...

    def describe(self) -> dict[str, object]:
        """Where it listens, for the log."""
        ...


def make_parser(
    name: str, description: str, epilog: str, port: int, *, key_flag: str = "--cert-key"
) -> argparse.ArgumentParser:
    """A parser with the flags of the endpoint; ``key_flag`` is that of the certificate's key."""
    parser = argparse.ArgumentParser(
        prog=name,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--addr", default=f":{port}", help="where to listen (default: %(default)s)")
    parser.add_argument("--cert", type=Path, help="the server's certificate with its chain, PEM")
    parser.add_argument(key_flag, dest="cert_key", type=Path, help="its key, PEM")
    return parser


def read_endpoint(options: argparse.Namespace, port: int, *, key_flag: str = "--cert-key") -> Endpoint:
    """The endpoint of these flags, with the files read; UserError."""
    host, number = parse_address(options.addr, "--addr", f":{port} or 192.0.2.1:{port}")
    tls = read_pair(options.cert, options.cert_key, ("--cert", key_flag))
    return Endpoint(host=host, port=number, tls=tls)


def run_server(name: str, make: Callable[[Log], Server]) -> int:
    """Make a server and run it until SIGINT or SIGTERM; the exit code."""
    log = Log({"service": name})
    try:
        asyncio.run(_run(make(log), log))
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        return FAILED
    return 0


async def _run(server: Server, log: Log) -> None:
    await server.start()
    log.info("listening", **server.describe())
    await wait_for_signal()
    await server.stop()
