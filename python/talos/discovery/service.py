"""The service ``sidero.discovery.server.Cluster``."""

import asyncio
import ipaddress
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any, NoReturn

import grpc
import grpc.aio

from talos.api.discovery.cluster_pb2 import (
    Affiliate,
    AffiliateDeleteRequest,
    AffiliateDeleteResponse,
    AffiliateUpdateRequest,
    AffiliateUpdateResponse,
    HelloRequest,
    HelloResponse,
    ListRequest,
    ListResponse,
    RedirectMessage,
    WatchRequest,
    WatchResponse,
)
from talos.discovery.clusters import Clusters
from talos.discovery.limits import (
    FullError,
    InvalidRequestError,
    check_affiliate_id,
    check_cluster_id,
    check_update,
    seconds_of,
)
from talos.rpc.port.addresses import network_of, parse_peer
from talos.rpc.port.rates import Rates

SERVICE = "sidero.discovery.server.Cluster"

MAX_WAIT = 2.0
"""Seconds for which a request of a client that sends too many is held back before it is refused."""

VERSIONS = 100
"""Client versions that are counted apart; the rest is counted as ``other``."""

type Context = grpc.aio.ServicerContext[Any, Any]


class ClusterService:
    """Answers the calls. ``redirect`` is an endpoint that new clients are sent to, empty: none."""

    def __init__(self, clusters: Clusters, rates: Rates, redirect: str = "") -> None:
        self._clusters = clusters
        self._rates = rates
        self._redirect = redirect
        self.hellos: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def make_handler(self) -> grpc.GenericRpcHandler:
        """What a grpc server is given."""
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Hello": unary(self.hello, HelloRequest.FromString, HelloResponse.SerializeToString),
            "AffiliateUpdate": unary(
                self.update, AffiliateUpdateRequest.FromString, AffiliateUpdateResponse.SerializeToString
            ),
            "AffiliateDelete": unary(
                self.delete, AffiliateDeleteRequest.FromString, AffiliateDeleteResponse.SerializeToString
            ),
            "List": unary(self.list, ListRequest.FromString, ListResponse.SerializeToString),
            "Watch": stream(self.watch, WatchRequest.FromString, WatchResponse.SerializeToString),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def hello(self, request: HelloRequest, context: Context) -> HelloResponse:
        """The caller's address, and where it shall go."""
        address = await self._admit(context)
        try:
            check_cluster_id(request.cluster_id)
        except InvalidRequestError as error:
            await self._refuse(context, error)
        version = request.client_version[:64] or "unknown"
        if version not in self.hellos and len(self.hellos) >= VERSIONS:
            version = "other"
        self.hellos[version] += 1
        response = HelloResponse(client_ip=ipaddress.ip_address(address).packed if address else b"")
        if self._redirect:
            response.redirect.CopyFrom(RedirectMessage(endpoint=self._redirect))
        return response

    async def update(self, request: AffiliateUpdateRequest, context: Context) -> AffiliateUpdateResponse:
        """Keep data and endpoints of an affiliate for a time."""
        await self._admit(context)
        try:
            check_update(request)
            self._clusters.update(
                request.cluster_id,
                request.affiliate_id,
                request.affiliate_data,
                request.affiliate_endpoints,
                seconds_of(request.ttl),
            )
        except (InvalidRequestError, FullError) as error:
            await self._refuse(context, error)
        return AffiliateUpdateResponse()

    async def delete(self, request: AffiliateDeleteRequest, context: Context) -> AffiliateDeleteResponse:
        """Forget an affiliate."""
        await self._admit(context)
        try:
            check_cluster_id(request.cluster_id)
            check_affiliate_id(request.affiliate_id)
        except InvalidRequestError as error:
            await self._refuse(context, error)
        self._clusters.delete(request.cluster_id, request.affiliate_id)
        return AffiliateDeleteResponse()

    async def list(self, request: ListRequest, context: Context) -> ListResponse:
        """The affiliates of a cluster."""
        await self._admit(context)
        try:
            check_cluster_id(request.cluster_id)
        except InvalidRequestError as error:
            await self._refuse(context, error)
        return ListResponse(affiliates=self._clusters.find_affiliates(request.cluster_id))

    async def watch(self, request: WatchRequest, context: Context) -> AsyncGenerator[WatchResponse]:
        """The affiliates of a cluster in the first message, then those that change."""
        await self._admit(context)
        try:
            check_cluster_id(request.cluster_id)
            affiliates, subscription = self._clusters.subscribe(request.cluster_id)
        except (InvalidRequestError, FullError) as error:
            await self._refuse(context, error)
        try:
            yield WatchResponse(affiliates=affiliates)
            while True:
                present, gone = await subscription.wait()
                if present:
                    yield WatchResponse(affiliates=present)
                if gone:
                    yield WatchResponse(affiliates=[Affiliate(id=one) for one in gone], deleted=True)
        except FullError as error:
            await context.abort(grpc.StatusCode.ABORTED, f"subscription canceled: {error}")
        finally:
            self._clusters.unsubscribe(request.cluster_id, subscription)

    async def _admit(self, context: Context) -> str:
        """Count a request, hold it back or refuse it; the caller's address."""
        address = parse_peer(context.peer())
        wait = self._rates.take(network_of(address) if address else "")
        if wait > MAX_WAIT:
            self.refused["rate"] += 1
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rate limit exceeds request timeout")
        if wait:
            await asyncio.sleep(wait)
        return address

    async def _refuse(self, context: Context, error: InvalidRequestError | FullError) -> NoReturn:
        if isinstance(error, FullError):
            self.refused["full"] += 1
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        self.refused["invalid"] += 1
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
