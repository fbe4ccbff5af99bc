"""``nix run .#kms``: a key management service, to try encrypted volumes with."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from talos.kms.server import KEY_SIZE, PORT, KeyServer, Settings
from talos.pki.certificate import parse_certificate
from talos.pki.keys import parse_key
from talos.system.errors import UserError
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
    host, _, port = options.addr.rpartition(":")
    if not port.isdecimal() or int(port) >= 1 << 16:
        raise UserError(
            f"{options.addr!r} is no address", where="--addr", hint="write it like :4050 or 192.0.2.1:4050"
        )
    key = _read(options.key)
    if len(key) != KEY_SIZE:
        raise UserError(f"it has {len(key)} bytes, not {KEY_SIZE}", where=str(options.key))
    if bool(options.cert) != bool(options.cert_key):
        raise UserError("belong together", where="--cert, --cert-key", hint="give both or none")
    certificate, pair = (_read(options.cert), _read(options.cert_key)) if options.cert else (b"", b"")
    if certificate:
        parse_certificate(certificate, where=str(options.cert))
        parse_key(pair, where=str(options.cert_key))
    return Settings(
        host=host.strip("[]"), port=int(port), key=key, certificate=certificate, certificate_key=pair
    )


async def _run(settings: Settings, log: Log) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    server = KeyServer(settings)
    await server.start()
    log.info("listening", port=server.port, tls=bool(settings.certificate))
    await stopping.wait()
    await server.stop()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"can't be read: {error.strerror}", where=str(path)) from None


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
