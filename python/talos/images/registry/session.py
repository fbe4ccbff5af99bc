"""Fetching the parts of one image: from the endpoint that works, with retries and bounds of time and size."""

import hashlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from itertools import chain, islice
from urllib.parse import urlencode, urlsplit

import trio

from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.images.manifest import INDEX_TYPES, MANIFEST_TYPES, MAX_MANIFEST
from talos.images.reference import Reference
from talos.images.registry.auth import authenticate
from talos.images.registry.hosts import (
    Endpoint,
    NoSuchImageError,
    RegistryError,
    Sources,
    UnavailableRegistryError,
    find_credentials,
    find_endpoints,
    find_tls,
)
from talos.images.registry.http import (
    Abort,
    Client,
    Response,
    check_status,
    request,
)
from talos.images.registry.tls import make_context
from talos.system.backoff import Backoff
from talos.system.errors import UserError

CHUNK = 256 * 1024
"""Bytes that are handed on at once."""
ATTEMPTS = 3
"""For each part and endpoint, when a failure may be temporary: one after all endpoints have been tried."""
MAX_THREADS = 6
"""Of all of the node's own pulls together."""
ACCEPT = ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))

_threads = trio.CapacityLimiter(MAX_THREADS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullLimits:
    """How long a registry may take. Seconds.

    A part has to come within ``timeout`` and a second for each ``min_rate`` bytes of its announced size, and
    ``silence`` is the longest time without a byte. The delay before another attempt doubles.
    """

    timeout: float = 60.0
    min_rate: int = 16 * 1024
    silence: float = 30.0
    first_retry_delay: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A manifest or an index as it came."""

    descriptor: Descriptor
    data: bytes


@dataclass(slots=True, kw_only=True)
class Session:
    """The endpoints of one image. Tokens are kept for as long as the pull takes."""

    reference: Reference
    sources: Sources
    endpoints: tuple[Endpoint, ...]
    threads: trio.CapacityLimiter
    limits: PullLimits = PullLimits()
    _tokens: dict[str, str] = field(default_factory=dict[str, str])
    _contexts: dict[str, ssl.SSLContext] = field(default_factory=dict[str, ssl.SSLContext])
    _unreachable: set[str] = field(default_factory=set[str])

    async def fetch_manifest(self, object: str, expected: Descriptor | None = None) -> Fetched:
        """A manifest or an index, by a tag or its digest; UserError with what each endpoint has answered.

        NoSuchImageError: none has it.
        UnavailableRegistryError: one was not reached, or fails at the moment.
        """
        digest = expected.digest if expected else object if ":" in object else ""

        async def fetch(endpoint: Endpoint) -> Fetched:
            with trio.fail_after(self.limits.timeout):
                opened = await self._open(endpoint, f"manifests/{object}", {"Accept": ACCEPT})
                try:
                    data = await self._in_thread(opened, partial(opened.response.read_all, MAX_MANIFEST))
                finally:
                    opened.response.close()
            algorithm = digest.partition(":")[0] or "sha256"
            found = f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"
            if digest and found != digest:
                raise RegistryError(f"what it gives as {digest} is {found}")
            kind = opened.response.headers.get("content-type", "").partition(";")[0].strip()
            media_type = expected.media_type if expected and expected.media_type else kind
            descriptor = Descriptor(digest=found, size=len(data), media_type=media_type)
            return Fetched(descriptor=descriptor, data=data)

        return await self._try_endpoints(fetch, f"manifest {object}")

    async def fetch_referrers(self, digest: str) -> bytes:
        """The index of what refers to a manifest; what it names is fetched by its digest. UserError."""

        async def fetch(endpoint: Endpoint) -> bytes:
            with trio.fail_after(self.limits.timeout):
                opened = await self._open(endpoint, f"referrers/{digest}", {"Accept": INDEX_TYPES[0]})
                try:
                    return await self._in_thread(opened, partial(opened.response.read_all, MAX_MANIFEST))
                finally:
                    opened.response.close()

        return await self._try_endpoints(fetch, f"referrers of {digest}")

    async def fetch_blob[T](
        self, blob: Descriptor, store: Callable[[AsyncGenerator[bytes]], Awaitable[T]]
    ) -> T:
        """Hand a blob's chunks to ``store``, anew with each attempt; UserError.

        Nothing is fetched before ``store`` takes the first chunk. It checks the digest; a RegistryError
        of it counts as the endpoint's. More or fewer bytes than announced are an error here.
        """

        async def fetch(endpoint: Endpoint) -> T:
            with trio.fail_after(self.limits.timeout + blob.size / self.limits.min_rate):
                async with aclosing(self._read_blob(endpoint, blob)) as chunks:
                    return await store(chunks)

        return await self._try_endpoints(fetch, f"blob {blob.digest}")

    async def _read_blob(self, endpoint: Endpoint, blob: Descriptor) -> AsyncGenerator[bytes]:
        opened = await self._open(endpoint, f"blobs/{blob.digest}", {})
        response, left = opened.response, blob.size
        try:
            if response.length not in (-1, blob.size):
                raise RegistryError(f"it sends {response.length} bytes of a blob of {blob.size}")
            while left > 0:
                chunk = await self._in_thread(opened, partial(response.read, min(left, CHUNK)))
                if not chunk:
                    raise RegistryError(f"{left} of {blob.size} bytes are missing", temporary=True)
                left -= len(chunk)
                yield chunk
            if response.length < 0 and await self._in_thread(opened, partial(response.read, 1)):
                raise RegistryError(f"it sends more than the {blob.size} bytes of the blob")
        finally:
            response.close()

    async def _open(self, endpoint: Endpoint, path: str, headers: Mapping[str, str]) -> "_Opened":
        """A reply of success."""
        abort, made = Abort(), list[_Opened]()

        def open_now() -> _Opened:
            opened = self._open_now(endpoint, path, headers, abort)
            made.append(opened)
            if abort.requested:
                opened.response.close()
            return opened

        try:
            return await trio.to_thread.run_sync(open_now, abandon_on_cancel=True, limiter=self.threads)
        except trio.Cancelled:
            abort()
            for opened in made:  # the thread was done, but no task waits for what it made
                opened.response.close()
            raise

    def _open_now(self, endpoint: Endpoint, path: str, headers: Mapping[str, str], abort: Abort) -> "_Opened":
        query = f"?{urlencode({'ns': endpoint.namespace})}" if endpoint.namespace else ""
        url = f"{endpoint.base}/{self.reference.repository}/{path}{query}"

        client = Client(
            context=self._find_context, environment=self.sources.environment, silence=self.limits.silence
        )

        def send() -> Response:
            token = self._tokens.get(endpoint.base)
            sent = {**headers, "Authorization": token} if token else headers
            return request(url, client=client, headers=sent, abort=abort)

        response = send()
        # The target of a redirect would get the password, or could name a server for tokens that gets it.
        if response.status == 401 and urlsplit(response.url).netloc == urlsplit(url).netloc:
            response.close()
            self._tokens[endpoint.base] = authenticate(
                response.headers.get("www-authenticate", ""),
                find_credentials(self.sources.registries, endpoint.host),
                registry=url,
                client=client,
                abort=abort,
            )
            response = send()
        check_status(response)
        return _Opened(response=response, abort=abort)

    async def _in_thread[T](self, opened: "_Opened", read: Callable[[], T]) -> T:
        try:
            return await trio.to_thread.run_sync(read, abandon_on_cancel=True, limiter=self.threads)
        except trio.Cancelled:
            opened.abort()
            raise

    def _find_context(self, host: str) -> ssl.SSLContext:
        if host not in self._contexts:
            self._contexts[host] = make_context(find_tls(self.sources.registries, host), host)
        return self._contexts[host]

    async def _try_endpoints[T](self, fetch: Callable[[Endpoint], Awaitable[T]], what: str) -> T:
        """What the first endpoint gives that works; after all of them, those that may work later once more.

        An endpoint that was not reached or was too slow is the last to be tried for the parts that follow.
        """
        failures: dict[Endpoint, RegistryError] = {}
        remaining = sorted(self.endpoints, key=lambda endpoint: endpoint.base in self._unreachable)
        for delay in chain((0.0,), islice(Backoff(self.limits.first_retry_delay), ATTEMPTS - 1)):
            await trio.sleep(delay)
            for endpoint in remaining:
                try:
                    return await fetch(endpoint)
                except RegistryError as error:
                    failures[endpoint] = error
                except trio.TooSlowError:
                    failures[endpoint] = RegistryError("it takes too long", reached=False)
                if not failures[endpoint].reached:
                    self._unreachable.add(endpoint.base)
            remaining = [endpoint for endpoint in remaining if failures[endpoint].temporary]
            if not remaining:
                break
        raise _make_error(f"image {self.reference}", what, failures)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    response: Response
    abort: Abort


def _make_error(where: str, what: str, failures: Mapping[Endpoint, RegistryError]) -> UserError:
    """With the last failure of each endpoint."""
    errors = failures.values()
    if all(error.status == HTTPStatus.NOT_FOUND for error in errors):
        kind = NoSuchImageError
    elif all(error.reached and not error.temporary for error in errors):
        kind = UserError
    else:
        kind = UnavailableRegistryError
    reasons = "; ".join(f"{endpoint.host}: {error}" for endpoint, error in failures.items())
    return kind(f"{what}: {reasons}", where=where)


def open_session(
    reference: Reference,
    sources: Sources,
    limits: PullLimits | None = None,
    *,
    threads: trio.CapacityLimiter | None = None,
) -> Session:
    """The session of one pull; UserError when the config leaves no endpoint.

    A registry that stalls holds some of ``threads``, for which others then wait; by default those of the
    node's own pulls.
    """
    return Session(
        reference=reference,
        sources=sources,
        endpoints=find_endpoints(sources.registries, reference.registry),
        threads=threads or _threads,
        limits=limits or PullLimits(),
    )
