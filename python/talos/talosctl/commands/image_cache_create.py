"""``talosctl image cache-create``: images pulled into files, for nodes without a network."""

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from talos.api.definitions.cri_pb2 import (
    RegistriesConfigSpec,
    RegistryEndpointConfig,
    RegistryMirrorConfig,
    RegistryTLSConfig,
)
from talos.system.errors import UserError
from talos.system.parsed import as_object
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.output import console

STDIN, ALL = "-", "all"
PLATFORM = "linux/amd64"
LAYOUTS = ("oci", "flat")
DOCKER_HUB = "https://index.docker.io/v1/"
"""What the settings of Docker's client call docker.io."""
_PLATFORM = re.compile(r"[a-z0-9]+/[a-z0-9_]+(/[a-z0-9]+)?")


def run_create(invocation: Invocation) -> int:
    """Pull images into a cache."""
    # What HTTP needs is loaded by the one command that pulls.
    import trio

    from talos.images.reference import Reference
    from talos.images.registry.hosts import Sources
    from talos.provision.mirror.cache import CacheRequest, make_cache

    flags = invocation.flags
    path = Path(flags.text("image-cache-path"))
    if (path.exists() or path.is_symlink()) and not flags.is_set("force"):
        raise UserError(f"image cache path {path} already exists, use --force to remove and use the path")
    layout = flags.text("layout")
    if layout not in LAYOUTS:
        raise UserError(
            f'there is no layout "{layout}"', where="--layout", hint=f"use {' or '.join(LAYOUTS)}"
        )
    is_insecure, auths = flags.is_set("insecure"), read_credentials(find_docker_config())

    def find_sources(reference: Reference) -> Sources:
        registries = make_insecure(reference.registry) if is_insecure else RegistriesConfigSpec()
        for host, auth in auths.items():
            registries.registry_auths[host].registry_auth = auth
        return Sources(registries=registries, environment=os.environ)

    layers = flags.text("image-layer-cache-path")
    request = CacheRequest(
        images=find_images(flags),
        path=path,
        sources=find_sources,
        platforms=parse_platforms(flags.texts("platform")),
        is_flat=layout == "flat",
        layers=Path(layers) if layers else None,
        signatures=flags.is_set("cosign-signatures"),
    )

    def report(line: str) -> None:
        console.show_progress("")
        console.note(line)

    try:
        trio.run(make_cache, request, report, console.show_progress)
    except OSError as error:
        raise UserError(f"can't be written: {error.strerror}", where=str(error.filename or path)) from None
    report(f"Created {path}")
    return 0


def find_images(flags: Flags) -> tuple[str, ...]:
    """The images that the flag names; for ``-`` those on standard input, one a line."""
    from talos.provision.mirror.cache import read_list

    found: list[str] = []
    for text in flags.texts("images"):
        found += read_list(sys.stdin) if text == STDIN else [text]
    if not found:
        raise UserError("names no image", where="--images", hint="talosctl image k8s-bundle lists some")
    return tuple(dict.fromkeys(found))


def parse_platforms(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The platforms that a flag has; empty for all."""
    if ALL in texts:
        return ()
    for text in texts:
        if not _PLATFORM.fullmatch(text):
            raise UserError(
                f'"{text}" is no platform', where="--platform", hint=f"such as {PLATFORM}, or {ALL}"
            )
    return texts


def make_insecure(registry: str) -> RegistriesConfigSpec:
    """A registry whose certificate is not verified, or which has none."""
    spec = RegistriesConfigSpec()
    endpoints = [
        RegistryEndpointConfig(endpoint_endpoint=f"{scheme}://{registry}") for scheme in ("https", "http")
    ]
    spec.registry_mirrors[registry].CopyFrom(
        RegistryMirrorConfig(mirror_endpoints=endpoints, mirror_skip_fallback=True)
    )
    spec.registry_tl_ss[registry].CopyFrom(RegistryTLSConfig(tls_insecure_skip_verify=True))
    return spec


def find_docker_config() -> Path:
    """The settings of Docker's client, where ``docker login`` keeps credentials."""
    folder = os.environ.get("DOCKER_CONFIG", "")
    return (Path(folder) if folder else Path.home() / ".docker") / "config.json"


def read_credentials(path: Path) -> Mapping[str, str]:
    """User and password by registry, in base64 as the file has them; UserError when it is damaged."""
    try:
        document: object = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(f"can't be read: {error.strerror}", where=str(path)) from None
    except (ValueError, RecursionError):
        raise UserError("is no JSON", where=str(path), hint="docker login writes it") from None
    auths = as_object(as_object(document).get("auths"))
    found = {name: as_object(value).get("auth") for name, value in auths.items()}
    return {
        "docker.io" if name == DOCKER_HUB else name.removeprefix("https://").rstrip("/"): auth
        for name, auth in found.items()
        if isinstance(auth, str) and auth
    }


CREATE = Command(
    name="cache-create",
    summary="Pull images into a cache for nodes without a network",
    details=(
        "The cache is an OCI layout of one image, whose layer has all manifests and blobs, or with "
        "--layout=flat these files as they are. What has come of a pull that fails is kept beside the path, "
        "and another try goes on with it. Credentials are those of `docker login`."
    ),
    flags=(
        Flag(
            name="cosign-signatures",
            type=Type.BOOL,
            default="true",
            help="cache the signatures that cosign stores under tags, too",
        ),
        Flag(name="force", type=Type.BOOL, help="replace what is at the path"),
        Flag(name="image-cache-path", required=True, help="the folder to make"),
        Flag(name="image-layer-cache-path", help="a folder that keeps layers for the next cache"),
        Flag(
            name="images",
            type=Type.STRINGS,
            required=True,
            help="the images; - reads them from the standard input, one a line",
        ),
        Flag(
            name="insecure",
            type=Type.BOOL,
            help="take registries without TLS or with a certificate that is not verified",
        ),
        Flag(name="layout", default=LAYOUTS[0], suggestions=LAYOUTS, help="the form of the cache"),
        Flag(
            name="platform",
            type=Type.STRINGS,
            default=PLATFORM,
            help="the platforms of the images; all for each that an image has",
        ),
    ),
    run=run_create,
)
