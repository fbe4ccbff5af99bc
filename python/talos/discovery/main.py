"""``nix run .#discovery``: the service through which the nodes of clusters find each other."""

import argparse
from collections.abc import Sequence

from talos.discovery.server import METRICS_PORT, PORT, DiscoveryServer, Settings
from talos.serving.address import parse_address
from talos.serving.program import make_parser, read_endpoint, run_server

KEY_FLAG = "--key"
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
    options = _parse(argv)
    return run_server("discovery", lambda _: DiscoveryServer(make_settings(options)))


def make_settings(options: argparse.Namespace) -> Settings:
    """The settings of the flags, with the files read."""
    metrics_host, metrics_port = "", -1
    if options.metrics_addr:
        example = f":{METRICS_PORT} or 192.0.2.1:{METRICS_PORT}"
        metrics_host, metrics_port = parse_address(options.metrics_addr, "--metrics-addr", example)
    return Settings(
        endpoint=read_endpoint(options, PORT, key_flag=KEY_FLAG),
        metrics_host=metrics_host,
        metrics_port=metrics_port,
        redirect=options.redirect_endpoint,
        gc_interval=options.gc_interval,
    )


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.1 to 3600")
    return seconds


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    description = "Serve the discovery API, through which the nodes of clusters find each other."
    parser = make_parser("discovery", description, _EPILOG, PORT, key_flag=KEY_FLAG)
    parser.add_argument(
        "--metrics-addr",
        default=f":{METRICS_PORT}",
        help="where metrics are served over HTTP, at /metrics; empty: nowhere (default: %(default)s)",
    )
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
