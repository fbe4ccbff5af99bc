"""``nix run .#discovery``: the service through which the nodes of clusters find each other."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from talos.discovery.server import METRICS_PORT, PORT, DiscoveryServer, Settings
from talos.serving.address import parse_address
from talos.serving.endpoint import Endpoint, read_pair
from talos.serving.grpcio import wait_for_signal
from talos.system.errors import UserError
from talos.system.logging import Log

FAILED = 1
_EPILOG = """\
Nodes encrypt what they publish with their cluster's secret; the server sees a cluster's id, sizes and the
addresses of clients. It keeps everything in memory: after a restart nodes publish anew within seconds.

In the machine config:
  apiVersion: v1alpha1
  kind: DiscoveryServiceConfig
  name: default
  endpoint: https://discovery.example.org:3000/

Without --cert it serves plain HTTP/2, for a TLS proxy in front of it or a network that is trusted (endpoint:
http://...). Ed25519 keys don't work here: take ECDSA or RSA.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    log = Log({"service": "discovery"})
    try:
        asyncio.run(_run(make_settings(_parse(argv)), log))
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        return FAILED
    return 0


def make_settings(options: argparse.Namespace) -> Settings:
    """The settings of the flags, with the files read."""
    host, port = parse_address(options.addr, "--addr", f":{PORT} or 192.0.2.1:{PORT}")
    metrics_host, metrics_port = "", -1
    if options.metrics_addr:
        example = f":{METRICS_PORT} or 192.0.2.1:{METRICS_PORT}"
        metrics_host, metrics_port = parse_address(options.metrics_addr, "--metrics-addr", example)
    tls = read_pair(options.cert, options.key, ("--cert", "--key"))
    return Settings(
        endpoint=Endpoint(host=host, port=port, tls=tls),
        metrics_host=metrics_host,
        metrics_port=metrics_port,
        redirect=options.redirect_endpoint,
        gc_interval=options.gc_interval,
    )


async def _run(settings: Settings, log: Log) -> None:
    server = DiscoveryServer(settings)
    await server.start()
    tls = settings.endpoint.tls is not None
    log.info("listening", port=server.port, tls=tls, metrics_port=server.metrics_port)
    await wait_for_signal()
    await server.stop()


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.1 to 3600")
    return seconds


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="discovery",
        description="Serve the discovery API, through which the nodes of clusters find each other.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--addr", default=f":{PORT}", help="where to listen (default: %(default)s)")
    parser.add_argument(
        "--metrics-addr",
        default=f":{METRICS_PORT}",
        help="where metrics are served over HTTP, at /metrics; empty: nowhere (default: %(default)s)",
    )
    parser.add_argument("--cert", type=Path, help="the server's certificate with its chain, PEM")
    parser.add_argument("--key", type=Path, help="its key, PEM")
    parser.add_argument(
        "--redirect-endpoint", default="", help="HOST:PORT of another server that new clients are sent to"
    )
    parser.add_argument(
        "--gc-interval",
        type=_parse_seconds,
        default=60.0,
        help="seconds between collections of what has expired (default: %(default)s)",
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
