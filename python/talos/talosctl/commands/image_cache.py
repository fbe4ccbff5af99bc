"""A cache of images for nodes: ``talosctl image cache-serve``, and ``cache-cert-gen`` for its TLS."""

import ssl
import sys
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from talos.config.documents.cri.registry_mirror import RegistryEndpoint, RegistryMirrorConfig
from talos.config.documents.security.trusted_roots import TrustedRootsConfig
from talos.config.model import Config
from talos.config.read.loader import dump
from talos.config.values import Url
from talos.pki.authority import CA_LIFETIME, CertificateAuthority, Usage
from talos.pki.keys import KeyType
from talos.serving.address import parse_address
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.output import console
from talos.talosctl.output.files import write_file

PATCH = Path("image-cache-patch.yaml")
DOCUMENT = "image-cache-ca"
ORGANIZATION, NAME = "talos", "image-cache"
_PUBLIC, _PRIVATE = 0o644, 0o600


def run_cert_gen(invocation: Invocation) -> int:
    """Write an authority, a certificate and key by it, and a config patch that trusts the authority."""
    flags = invocation.flags
    addresses, names = _addresses(flags), flags.texts("advertised-name")
    if not addresses and not names:
        raise UserError("is missing", where="--advertised-address", hint="the address that nodes connect to")
    authority = CertificateAuthority.generate(KeyType.P256, organizations=[ORGANIZATION])
    # A certificate with its issuer's own name would be taken for one that signed itself.
    server = authority.issue(
        common_name=NAME, ips=addresses, dns_names=names, ttl=CA_LIFETIME, usages=Usage.SERVER
    )
    patch = dump(Config((TrustedRootsConfig(name=DOCUMENT, certificates=authority.crt.decode()),)))
    contents = (
        (PATCH, patch.encode(), _PUBLIC),
        (Path(flags.text("tls-ca-file")), authority.crt, _PUBLIC),
        (Path(flags.text("tls-cert-file")), server.crt, _PUBLIC),
        (Path(flags.text("tls-key-file")), server.key, _PRIVATE),
    )
    for path, content, mode in contents:
        write_file(path, content, force=True, mode=mode)
        console.note(f"Created {path}")
    return 0


def _addresses(flags: Flags) -> list[str]:
    addresses = flags.texts("advertised-address")
    for address in addresses:
        try:
            ip_address(address)
        except ValueError as error:
            raise UserError(str(error), where="--advertised-address", hint="such as 10.0.0.1") from None
    return list(addresses)


CERT_GEN = Command(
    name="cache-cert-gen",
    summary="Make certificates for a cache of images, and a config patch that trusts them",
    flags=(
        Flag(name="advertised-address", type=Type.STRINGS, metavar="ipSlice", help="addresses of the cache"),
        Flag(name="advertised-name", type=Type.STRINGS, help="names of the cache"),
        Flag(name="tls-ca-file", default="ca.crt", help="the file to write the authority's certificate to"),
        Flag(name="tls-cert-file", default="tls.crt", help="the file to write the certificate to"),
        Flag(name="tls-key-file", default="tls.key", help="the file to write the key to"),
    ),
    run=run_cert_gen,
)


MIRRORS_PATCH = Path("image-cache-mirrors-patch.yaml")
MIRRORS = "docker.io,ghcr.io,registry.k8s.io"
ADDRESS = "127.0.0.1:3172"


def run_serve(invocation: Invocation) -> int:
    """Serve a cache, or a folder of OCI archives, as a registry until it is interrupted."""
    from threading import Thread

    from talos.images.cache.catalog import FlatCatalog
    from talos.images.cache.layout import MANIFESTS
    from talos.images.cache.server import RegistryServer
    from talos.provision.mirror.archives import read_images
    from talos.provision.mirror.server import ArchiveCatalog

    flags = invocation.flags
    host, port = parse_address(flags.text("address"), "--address", ADDRESS)
    host = host or "0.0.0.0"  # noqa: S104 - an empty host is every address
    tls = make_tls(flags.text("tls-cert-file"), flags.text("tls-key-file"))
    folder = Path(flags.text("image-cache-path"))
    is_flat = (folder / MANIFESTS).is_dir()
    catalog = FlatCatalog([folder]) if is_flat else ArchiveCatalog(read_images(folder))
    try:
        server = RegistryServer((host, port), catalog, tls)
    except OSError as error:
        raise UserError(f"can't listen: {error.strerror}", where="--address") from None
    with server:
        scheme = "https" if tls else "http"
        urls = [f"{scheme}://{_join(address, server.server_port)}" for address in reachable(host)]
        documents = tuple(
            RegistryMirrorConfig(
                name=name, endpoints=tuple(RegistryEndpoint(url=Url.parse(url)) for url in urls)
            )
            for name in flags.texts("mirror")
        )
        write_file(MIRRORS_PATCH, dump(Config(documents)), force=True, mode=_PUBLIC)
        console.note(f"Created {MIRRORS_PATCH}")
        console.note(f"{folder} at {', '.join(urls)}; Ctrl+C ends it")
        # In a thread of its own: an interrupt while a connection begins could be lost in a callback.
        serving = Thread(target=server.serve_forever, daemon=True)
        serving.start()
        with suppress(KeyboardInterrupt):
            serving.join()
        server.shutdown()
    return 0


def reachable(host: str) -> Sequence[str]:
    """The addresses by which nodes reach a server on ``host``."""
    if host not in {"0.0.0.0", "::"}:  # noqa: S104 - compared with
        return (host,)
    if sys.platform != "linux":
        raise UserError(
            "is needed where this is no Linux", where="--address", hint="name one that nodes reach"
        )
    from pyroute2 import IPRoute

    with IPRoute() as route:
        found = (dict(row["attrs"]).get("IFA_ADDRESS", "") for row in route.get_addr())
        addresses = [ip_address(text) for text in found]
    return [str(address) for address in addresses if not (address.is_loopback or address.is_link_local)]


def make_tls(certificate: str, key: str) -> ssl.SSLContext | None:
    """The server's side of TLS, None when no files are named."""
    if not certificate and not key:
        return None
    if not certificate or not key:
        missing = "--tls-key-file" if certificate else "--tls-cert-file"
        raise UserError("is missing", where=missing, hint="TLS needs both files")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"no certificate and its key: {reason}", where=f"{certificate}, {key}") from None
    return context


def _join(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


SERVE = Command(
    name="cache-serve",
    summary="Serve a folder of images to nodes, as a registry",
    details=(
        "The folder is a cache of `talosctl image cache-create --layout=flat`, or has OCI archives, as "
        "`make images` writes them. A config patch that names this registry as a mirror is written to "
        f"{MIRRORS_PATCH}."
    ),
    flags=(
        Flag(name="address", default=ADDRESS, help="where to listen"),
        Flag(name="image-cache-path", required=True, help="the folder of images"),
        Flag(name="mirror", type=Type.STRINGS, default=MIRRORS, help="the registries that it stands for"),
        Flag(name="tls-cert-file", help="the file of the server's certificate"),
        Flag(name="tls-key-file", help="the file of its key"),
    ),
    run=run_serve,
)
