"""Where a server of a workstation listens, and the certificate that it shows."""

from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ed25519

from talos.pki.certificate import PemPair, has_key, parse_certificate
from talos.pki.keys import parse_key
from talos.system.errors import UserError
from talos.system.files import read_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An empty ``host`` is every address, port 0 a free one. Without ``tls`` it is plain HTTP/2."""

    host: str = ""
    port: int
    tls: PemPair | None = field(default=None, repr=False)


def read_pair(certificate: Path | None, key: Path | None, flags: tuple[str, str]) -> PemPair | None:
    """A server's certificate with its chain, and its key; None without both. ``flags`` name the two.

    UserError: one is missing or damaged, they don't belong together, or grpcio does not take such a key.
    """
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UserError("belong together", where=", ".join(flags), hint="give both or none")
    pair = PemPair(read_file(certificate), read_file(key))
    private = parse_key(pair.key, where=str(key))
    if not has_key(parse_certificate(pair.crt, where=str(certificate)), private):
        raise UserError(f"does not belong to {certificate}", where=str(key))
    if isinstance(private, ed25519.Ed25519PrivateKey):
        raise UserError("Ed25519 does not work here", where=str(key), hint="use an ECDSA or RSA key")
    return pair
