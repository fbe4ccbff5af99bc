"""ImageService.Verify: whether the config's rules let an image be pulled."""

from collections.abc import Mapping
from dataclasses import replace

from talos.api.definitions.cri_pb2 import RegistriesConfigSpec, RegistryAuthConfig
from talos.api.machine.image_pb2 import (
    ImageServiceCredentials,
    ImageServiceVerifyRequest,
    ImageServiceVerifyResponse,
)
from talos.api.rpc import Call, Code, Handler, RpcError
from talos.images.reference import parse_reference
from talos.images.registry.hosts import NoSuchImageError, Sources
from talos.machined.containerd.pull import read_sources
from talos.machined.containerd.verify.search import Verdict, Verifier, judge, verify_image
from talos.machined.node.ports.node import Node
from talos.system.errors import UserError


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.ImageService."""

    async def verify(request: ImageServiceVerifyRequest, _call: Call) -> ImageServiceVerifyResponse:
        # Few nodes ever get this call, and what HTTP needs is not loaded before.
        from talos.images.registry.session import open_session

        try:
            reference = parse_reference(request.image_ref)
        except UserError as error:
            raise RpcError(Code.INVALID_ARGUMENT, f"image reference is invalid: {error}") from None
        sources = await read_sources(node.state)
        judged = judge(sources.rules, reference)
        if isinstance(judged, Verdict):
            return ImageServiceVerifyResponse(message=judged.message)
        session = open_session(reference, add_credentials(sources, request.credentials))
        try:
            image = await session.fetch_manifest(reference.object)
        except NoSuchImageError as error:
            text = f"image reference not found during resolution: {error}"
            raise RpcError(Code.NOT_FOUND, text) from None
        verifier = Verifier(run=node.processes.capture, state=node.state)
        verdict = await verify_image(session, image, judged, verifier)
        return ImageServiceVerifyResponse(
            verified=verdict.verified,
            message=verdict.message,
            digested_image_ref=f"{reference.registry}/{reference.repository}@{image.descriptor.digest}",
        )

    return {"Verify": verify}


def add_credentials(sources: Sources, credentials: ImageServiceCredentials) -> Sources:
    """The same sources with a caller's credentials for one host."""
    if not credentials.host:
        return sources
    registries = RegistriesConfigSpec()
    registries.CopyFrom(sources.registries)
    auth = RegistryAuthConfig(registry_username=credentials.username, registry_password=credentials.password)
    registries.registry_auths[credentials.host].CopyFrom(auth)
    return replace(sources, registries=registries)
