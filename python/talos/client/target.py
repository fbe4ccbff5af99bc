"""What a command talks to: endpoints, nodes and the credentials to do so."""

from dataclasses import dataclass

from talos.client.endpoint import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One context of the talosconfig with the command line's flags applied.

    ``ca``, ``crt`` and ``key`` are PEM. ``insecure`` dials the nodes themselves, without a
    client certificate and without verifying theirs, unless ``fingerprints`` pin it.
    """

    endpoints: tuple[Endpoint, ...]
    nodes: tuple[str, ...]
    context: str = ""
    ca: bytes = b""
    crt: bytes = b""
    key: bytes = b""
    insecure: bool = False
    fingerprints: tuple[str, ...] = ()
    proxy_url: str = ""
    cluster: str = ""
    basic_auth: str = ""
    """``user:password``, empty for none."""
