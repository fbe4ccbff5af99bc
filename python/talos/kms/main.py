"""``nix run .#kms``: a key management service, to try encrypted volumes with."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from talos.kms.server import KEY_SIZE, PORT, KeyServer, Settings
from talos.serving.program import make_parser, read_endpoint, run_server
from talos.system.errors import UserError
from talos.system.files import read_file

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
    options = _parse(argv)
    return run_server("kms", lambda _: KeyServer(make_settings(options)))


def make_settings(options: argparse.Namespace) -> Settings:
    """The settings of the flags, with the files read."""
    key = read_file(options.key)
    if len(key) != KEY_SIZE:
        raise UserError(f"it has {len(key)} bytes, not {KEY_SIZE}", where=str(options.key))
    return Settings(endpoint=read_endpoint(options, PORT), key=key)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser("kms", "Seal and unseal the keys of encrypted volumes.", _EPILOG, PORT)
    parser.add_argument("--key", type=Path, required=True, help="the server's key, a file of 32 random bytes")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
