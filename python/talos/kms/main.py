"""``nix run .#kms``: a key management service, to try encrypted volumes with."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from talos.kms.server import KEY_SIZE, PORT, KeyServer, Settings
from talos.serving.address import parse_address
from talos.serving.endpoint import Endpoint, read_pair
from talos.serving.grpcio import wait_for_signal
from talos.system.errors import UserError
from talos.system.files import read_file
from talos.system.logging import Log

FAILED = 1
_EPILOG = """\
A node keeps such a key sealed in the header of its volume, and has it unsealed at each boot:

  encryption:
    provider: luks2
    keys: [{slot: 0, kms: {endpoint: "https://kms.example.org:4050"}}]

Whoever knows a node's UUID may unseal its keys here: the server is for tests, and for a network that is
trusted. Make its key with `head -c 32 /dev/urandom > kms.key`; without it no volume is ever opened again.
Without --cert it serves plain HTTP/2 (endpoint: grpc://...). Ed25519 certificates don't work here: take
ECDSA or RSA.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    log = Log({"service": "kms"})
    try:
        asyncio.run(_run(make_settings(_parse(argv)), log))
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        return FAILED
    return 0


def make_settings(options: argparse.Namespace) -> Settings:
    """The settings of the flags, with the files read."""
    host, port = parse_address(options.addr, "--addr", f":{PORT} or 192.0.2.1:{PORT}")
    key = read_file(options.key)
    if len(key) != KEY_SIZE:
        raise UserError(f"it has {len(key)} bytes, not {KEY_SIZE}", where=str(options.key))
    tls = read_pair(options.cert, options.cert_key, ("--cert", "--cert-key"))
    return Settings(endpoint=Endpoint(host=host, port=port, tls=tls), key=key)


async def _run(settings: Settings, log: Log) -> None:
    server = KeyServer(settings)
    await server.start()
    log.info("listening", port=server.port, tls=settings.endpoint.tls is not None)
    await wait_for_signal()
    await server.stop()


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="kms",
        description="Seal and unseal the keys of encrypted volumes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--addr", default=f":{PORT}", help="where to listen (default: %(default)s)")
    parser.add_argument("--key", type=Path, required=True, help="the server's key, a file of 32 random bytes")
    parser.add_argument("--cert", type=Path, help="the server's certificate with its chain, PEM")
    parser.add_argument("--cert-key", type=Path, help="its key, PEM")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
