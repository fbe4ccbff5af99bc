"""The image service of Kubernetes' runtime interface, as the kubelet has it while images are held to rules.

It is containerd's, but for pulls. An image that a rule demands to be verified is pulled by the digest that
was verified, whatever its tag means by then, and then gets the name that the kubelet finds it by.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import trio

from talos.api.containerd import cri_images_pb2 as cri
from talos.api.containerd import images_pb2
from talos.api.definitions.cri_pb2 import RegistryAuthConfig
from talos.api.rpc import Call, Code, DuplexTransport, RpcError, Service
from talos.images.reference import Reference
from talos.images.registry.hosts import Sources, find_endpoints
from talos.machined.api.verification import Approval, add_credentials, approve, parse_image_reference
from talos.machined.containerd.client import CRI_SOCKET, PODS, Containerd
from talos.machined.containerd.pull import VERIFIED_LABEL, name_image, read_sources
from talos.machined.containerd.verify.search import Verifier
from talos.machined.node.ports.node import Node
from talos.process.daemons import KUBELET_IMAGES
from talos.process.run import Daemon
from talos.rpc.passing import open_passage
from talos.rpc.server import serve
from talos.system.errors import UserError
from talos.system.process import Finished

SERVICE = cri.DESCRIPTOR.services_by_name["ImageService"]
PULL, STATUS = (f"/{SERVICE.full_name}/{method}" for method in ("PullImage", "ImageStatus"))
MAX_THREADS = 12
"""That fetch signatures of pods' images: registries that stall delay pods, and no pull of the node's own."""
MAX_PROGRAMS = 4
"""That verify signatures of pods' images at a time; a node may start a hundred pods at once."""
NAMED_TIMEOUT, POLL_INTERVAL = 5.0, 0.02
"""Seconds that containerd may take to list an image by a new name; it is pulled in any case."""


@asynccontextmanager
async def serve_pod_images(daemon: Daemon, node: Node) -> AsyncGenerator[None]:
    """Serve the kubelet for as long as the context is open; only processes of root may connect."""
    async with node.connect(CRI_SOCKET) as transport, open_passage(daemon, CRI_SOCKET) as passage:
        service = Service(SERVICE, {"PullImage": PodImages(node, transport).pull})
        async with serve(daemon, [service], KUBELET_IMAGES, others={f"/{SERVICE.full_name}": passage}):
            yield


class PodImages:
    """Pulls of pods' images."""

    def __init__(self, node: Node, transport: DuplexTransport) -> None:
        self._node = node
        self._transport = transport
        self._verifier = Verifier(run=self._run, state=node.state)
        self._containerd = Containerd(transport, PODS)
        self._threads = trio.CapacityLimiter(MAX_THREADS)
        self._programs = trio.CapacityLimiter(MAX_PROGRAMS)

    async def pull(self, request: cri.PullImageRequest, call: Call) -> cri.PullImageResponse:
        """Pull an image that the rules approve of; RpcError."""
        reference = parse_image_reference(request.image.image)
        approval = await self._approve(reference, request)
        # By the name that was judged, however the pod has it.
        request.image.image = str(approval.verified or reference)
        reply = await self._transport.unary(PULL, request, cri.PullImageResponse, metadata=call.metadata)
        if approval.verified:
            name = str(reference.stored)
            await self._name(name, str(approval.verified), approval.message)
            await self._wait_until_listed(name, reply.image_ref)
        return reply

    async def _approve(self, reference: Reference, request: cri.PullImageRequest) -> Approval:
        try:
            sources = await read_sources(self._node.state)
            if request.HasField("auth"):
                sources = add_credentials(sources, make_auths(sources, reference, request.auth))
            return await approve(reference, sources, self._verifier, self._threads)
        except RpcError as error:
            raise RpcError(error.code, _describe(reference, error.reason), error.details) from None
        except UserError as error:
            raise RpcError(Code.UNAVAILABLE, _describe(reference, str(error))) from None

    async def _run(self, argv: Sequence[str], stdin: bytes) -> Finished:
        async with self._programs:
            return await self._node.processes.capture(argv, stdin)

    async def _name(self, name: str, verified: str, message: str) -> None:
        """Give an image that was pulled by its digest the name that was requested, and the label."""
        request = images_pb2.GetImageRequest(name=verified)
        found = await self._containerd.call("images.v1.Images/Get", request, images_pb2.GetImageResponse)
        labels = {**found.image.labels, VERIFIED_LABEL: message}
        await name_image(self._containerd, name, found.image.target, labels)

    async def _wait_until_listed(self, name: str, id: str) -> None:
        """Wait until containerd finds the image by its name: the next pod may else pull it once more."""
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=name))
        with trio.move_on_after(NAMED_TIMEOUT):
            while True:
                status = await self._transport.unary(STATUS, request, cri.ImageStatusResponse)
                if status.image.id == id:
                    return
                await trio.sleep(POLL_INTERVAL)


def make_auths(
    sources: Sources, reference: Reference, auth: cri.AuthConfig
) -> Mapping[str, RegistryAuthConfig]:
    """A pod's credentials by host: of the server that they name, else, as containerd has it, of all."""
    hosts = (
        [urlsplit(auth.server_address).netloc]
        if auth.server_address
        else [endpoint.host for endpoint in find_endpoints(sources.registries, reference.registry)]
    )
    made = RegistryAuthConfig(
        registry_username=auth.username,
        registry_password=auth.password,
        registry_auth=auth.auth,
        registry_identity_token=auth.identity_token,
    )
    return dict.fromkeys(hosts, made)


def _describe(reference: Reference, reason: str) -> str:
    """An error in upstream's words."""
    return f'failed to verify image "{reference}" with talos: {reason}'
