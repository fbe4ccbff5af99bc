"""ImageService.Verify: whether the config's rules let an image be pulled."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import trio

from talos.api.definitions.cri_pb2 import RegistriesConfigSpec, RegistryAuthConfig
from talos.api.machine.image_pb2 import (
    ImageServiceCredentials,
    ImageServiceVerifyRequest,
    ImageServiceVerifyResponse,
)
from talos.api.rpc import Call, Code, Handler, RpcError
from talos.images.reference import Reference, parse_reference
from talos.images.registry.hosts import NoSuchImageError, Sources, UnavailableRegistryError
from talos.machined.containerd.pull import read_sources
from talos.machined.containerd.verify.search import Verdict, Verifier, apply_rules, verify_image
from talos.machined.node.ports.node import Node
from talos.system.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """An image that may be pulled; ``verified`` is its reference by digest, None when it need not be."""

    message: str
    verified: Reference | None = None


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.ImageService."""
    verifier = Verifier(run=node.processes.capture, state=node.state)

    async def verify(request: ImageServiceVerifyRequest, _call: Call) -> ImageServiceVerifyResponse:
        reference = parse_image_reference(request.image_ref)
        sources = add_credentials(await read_sources(node.state), _make_auths(request.credentials))
        approval = await approve(reference, sources, verifier)
        return ImageServiceVerifyResponse(
            verified=approval.verified is not None,
            message=approval.message,
            digested_image_ref=str(approval.verified or ""),
        )

    return {"Verify": verify}


def parse_image_reference(text: str) -> Reference:
    """A reference; RpcError INVALID_ARGUMENT."""
    try:
        return parse_reference(text)
    except UserError as error:
        raise RpcError(Code.INVALID_ARGUMENT, f"image reference is invalid: {error}") from None


async def approve(
    reference: Reference,
    sources: Sources,
    verifier: Verifier,
    threads: trio.CapacityLimiter | None = None,
) -> Approval:
    """Check an image by the rules of the config. ``threads`` fetch it; by default those of all pulls.

    RpcError: the rules refuse it, there is no such image, or its registry is not available.
    UserError: the settings of the registries, or what a registry sends, is invalid.
    """
    # Few nodes ever get here, and what HTTP needs is not loaded before.
    from talos.images.registry.session import open_session

    applied = apply_rules(sources.rules, reference)
    if isinstance(applied, Verdict):
        return Approval(message=applied.message)
    session = open_session(reference, sources, threads=threads)
    try:
        image = await session.fetch_manifest(reference.object)
        verdict = await verify_image(session, image, applied, verifier)
    except NoSuchImageError as error:
        raise RpcError(Code.NOT_FOUND, f"image reference not found during resolution: {error}") from None
    except UnavailableRegistryError as error:
        raise RpcError(Code.UNAVAILABLE, str(error)) from None
    verified = reference.pinned(image.descriptor.digest)
    return Approval(message=verdict.message, verified=verified)


def _make_auths(credentials: ImageServiceCredentials) -> Mapping[str, RegistryAuthConfig]:
    if not credentials.host:
        return {}
    auth = RegistryAuthConfig(registry_username=credentials.username, registry_password=credentials.password)
    return {credentials.host: auth}


def add_credentials(sources: Sources, auths: Mapping[str, RegistryAuthConfig]) -> Sources:
    """The same sources with a caller's credentials, by host."""
    registries = RegistriesConfigSpec()
    registries.CopyFrom(sources.registries)
    for host, auth in auths.items():
        registries.registry_auths[host].CopyFrom(auth)
    return replace(sources, registries=registries)
