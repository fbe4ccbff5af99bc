"""How this node reaches the members of etcd: addresses and certificates from the State."""

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from ipaddress import ip_address

from talos.api.definitions.etcd_pb2 import SpecSpec
from talos.api.machine_types import is_control_plane
from talos.api.rpc import Code, RpcError
from talos.config.active import parse_active
from talos.config.effective import cluster as effective
from talos.etcd.client import LOCAL, EtcdClient, open_any, open_member
from talos.resource import ids, kinds
from talos.resource.state import NotFoundError, State
from talos.rpc.bridge import Host
from talos.rpc.port.remote import ClientTls, make_client_context


class EtcdAccess:
    """Clients of etcd's members, as the administrator."""

    def __init__(self, host: Host, state: State) -> None:
        self._host = host
        self._state = state
        self._context: tuple[tuple[int, int], ssl.SSLContext] | None = None

    async def spec(self) -> SpecSpec:
        """The node's EtcdSpec; FAILED_PRECONDITION while there is none."""
        try:
            return (await self._state.get(*ids.ETCD_SPEC)).spec
        except NotFoundError:
            raise RpcError(Code.FAILED_PRECONDITION, "etcd has no address on this node yet") from None

    async def tls(self) -> ssl.SSLContext:
        """A context with the administrator's certificate; FAILED_PRECONDITION while there is none."""
        try:
            root = await self._state.get(*ids.ETCD_ROOT_SECRET)
            secret = await self._state.get(*ids.ETCD_SECRET)
        except NotFoundError:
            text = "etcd's certificates are not there yet"
            raise RpcError(Code.FAILED_PRECONDITION, text) from None
        versions = root.metadata.version, secret.metadata.version
        if self._context is None or self._context[0] != versions:
            admin = secret.spec.etcd_admin
            settings = ClientTls(certificate=admin.crt, key=admin.key, authorities=(root.spec.etcd_ca.crt,))
            self._context = versions, make_client_context(settings)
        return self._context[1]

    async def local_address(self) -> str:
        """Where this node's member listens for clients on this node."""
        try:
            spec = await self.spec()
        except RpcError:
            return LOCAL
        found = [ip_address(address.ip) for address in spec.listen_client_addresses]
        return next((str(address) for address in found if address.is_loopback), LOCAL)

    async def peers(self) -> list[str]:
        """Addresses of the other control plane nodes: as discovered, else the cluster endpoint's host."""
        own = await self._own_addresses()
        found: dict[str, None] = {}
        for member in await self._state.list(kinds.MEMBER):
            if is_control_plane(member.spec.machine_type):
                found |= dict.fromkeys(str(ip_address(address.ip[:16])) for address in member.spec.addresses)
        for endpoint in await self._state.list(kinds.ENDPOINT):
            found |= dict.fromkeys(str(ip_address(address.ip[:16])) for address in endpoint.spec.addresses)
        others = [address for address in found if address not in own]
        if found:
            return others
        host = await self._endpoint_host()
        return [host] if host and host not in own else []

    async def _own_addresses(self) -> set[str]:
        try:
            spec = (await self._state.get(*ids.NODE_ADDRESS_CURRENT)).spec
        except NotFoundError:
            return set()
        return {str(ip_address(prefix.ip[:16])) for prefix in spec.addresses}

    async def _endpoint_host(self) -> str:
        try:
            text = (await self._state.get(*ids.MACHINE_CONFIG)).spec.yaml_marshalled
        except NotFoundError:
            return ""
        url = effective.cluster_endpoint(parse_active(text)) if text else None
        return url.host if url is not None and url.host else ""

    @asynccontextmanager
    async def local(self) -> AsyncGenerator[EtcdClient]:
        """A client of this node's member."""
        async with open_member(self._host, await self.local_address(), await self.tls()) as client:
            yield client

    @asynccontextmanager
    async def member(self, address: str) -> AsyncGenerator[EtcdClient]:
        """A client of the member at an address."""
        async with open_member(self._host, address, await self.tls()) as client:
            yield client

    @asynccontextmanager
    async def other(self) -> AsyncGenerator[EtcdClient]:
        """A client of another node's member; UNAVAILABLE when none answers."""
        async with open_any(self._host, await self.peers(), await self.tls()) as client:
            yield client

    @asynccontextmanager
    async def any(self) -> AsyncGenerator[EtcdClient]:
        """A client of any voting member; UNAVAILABLE when none answers."""
        endpoints = [await self.local_address(), *await self.peers()]
        async with open_any(self._host, endpoints, await self.tls()) as client:
            yield client
