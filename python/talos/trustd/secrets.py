"""What trustd signs with."""

from dataclasses import dataclass, field

from talos.pki.authority import CertificateAuthority


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The CA that signs, the authorities of the nodes' API, and the token that workers must present."""

    authority: CertificateAuthority
    accepted: tuple[bytes, ...]
    token: str = field(repr=False)
