"""What the client of the Kubernetes API requests again: what an API server that stops leaves undone."""

import json
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import trio
from tests.harness.tls import make_server_tls

from talos.kubernetes.access import ClusterAccess
from talos.kubernetes.client import (
    MAX_PAGE,
    MAX_REPEATS,
    MAX_REPLY,
    OBJECTS_PER_PAGE,
    KubernetesClient,
    KubernetesError,
)
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType

LOCALHOST = "127.0.0.1"
TAKEN = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"kind": "Pod"}'
STOPS = b'HTTP/1.1 503 -\r\nRetry-After: 0\r\nContent-Length: 20\r\n\r\n{"message": "stops"}'
BROKEN = b'HTTP/1.1 503 -\r\nContent-Length: 21\r\n\r\n{"message": "broken"}'
ENDS = b""


@asynccontextmanager
async def serving(
    folder: Path, answer: Callable[[bytes], bytes], *, name: str = "", server_name: str = ""
) -> AsyncGenerator[KubernetesClient]:
    """A client of a server that answers each head of a request on a connection of its own.

    Its certificate is for ``name``, else for its address; the client expects ``server_name``.
    """
    authority = CertificateAuthority.generate(KeyType.P256, organizations=["kubernetes"])
    dns_names, ips = ([name], []) if name else ([], [LOCALHOST])
    server = authority.issue(dns_names=dns_names, ips=ips, usages=Usage.SERVER)
    context = make_server_tls(folder, server)

    async def handle(plain: trio.SocketStream) -> None:
        async with trio.SSLStream(plain, context, server_side=True, https_compatible=True) as stream:
            with suppress(trio.BrokenResourceError):
                await stream.send_all(answer(bytes(await stream.receive_some())))

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host=LOCALHOST))
        url = f"https://{LOCALHOST}:{listeners[0].socket.getsockname()[1]}"
        access = ClusterAccess(server=url, authority=authority.crt, server_name=server_name)
        yield KubernetesClient(access, trio.to_thread.run_sync)
        nursery.cancel_scope.cancel()


async def call(folder: Path, method: str, answers: Sequence[bytes]) -> tuple[str, int]:
    """What comes of a call, and how many of the answers it took."""
    left = list(answers)
    async with serving(folder, lambda _head: left.pop(0)) as client:
        try:
            outcome = str((await client.call(method, "/api/v1/pods"))["kind"])
        except KubernetesError as error:
            outcome = f"{error.status} {error}"
    return outcome, len(answers) - len(left)


@pytest.mark.parametrize(
    ("name", "server_name", "is_trusted"),
    [("", "", True), ("a.test", "a.test", True), ("a.test", "", False), ("a.test", "b.test", False)],
)
async def test_the_server_has_the_name_that_is_expected(
    tmp_path: Path, name: str, server_name: str, *, is_trusted: bool
) -> None:
    async with serving(tmp_path, lambda _head: TAKEN, name=name, server_name=server_name) as client:
        if is_trusted:
            assert (await client.call("GET", "/api/v1/pods"))["kind"] == "Pod"
        else:
            with pytest.raises(KubernetesError, match="certificate"):
                await client.call("GET", "/api/v1/pods")


@pytest.mark.parametrize(
    ("method", "answers", "outcome", "taken"),
    [
        ("GET", [ENDS, STOPS, TAKEN], "Pod", 3),
        ("POST", [STOPS, TAKEN], "Pod", 2),
        # Whether something was done is not known.
        ("POST", [ENDS, TAKEN], "0 ", 1),
        # Nothing shows that it passes.
        ("GET", [BROKEN, TAKEN], "503 broken", 1),
        ("GET", [STOPS] * 9, "503 stops", MAX_REPEATS + 1),
        ("GET", [ENDS] * 9, "0 ", MAX_REPEATS + 1),
    ],
)
async def test_what_a_server_that_stops_leaves_undone_is_requested_again(
    tmp_path: Path, method: str, answers: Sequence[bytes], outcome: str, taken: int
) -> None:
    found, count = await call(tmp_path, method, answers)
    assert found.startswith(outcome)
    assert count == taken


def answer_with(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"ok", "0 .*is no JSON: 'ok'"),
        (b'{"kind": "Po', "0 .*is no JSON"),
        (b"[1]", "0 .*is no JSON"),
        (b"[" * 100_000, "0 .*is no JSON"),
        (b'{"kind": "' + b"a" * MAX_REPLY + b'"}', "0 .*has more than 16 MiB"),
    ],
)
async def test_what_is_cut_or_no_object_is_an_error(tmp_path: Path, body: bytes, text: str) -> None:
    found, _ = await call(tmp_path, "GET", [answer_with(body)])
    assert re.match(text, found), found[:200]


async def test_a_refusal_in_plain_text_is_shown(tmp_path: Path) -> None:
    found, _ = await call(tmp_path, "GET", [answer_with(b"page not found", "404 Not Found")])
    assert found == "404 page not found"


async def test_readiness_is_plain_text(tmp_path: Path) -> None:
    async with serving(tmp_path, lambda _head: answer_with(b"ok")) as client:
        assert await client.is_ready()


def page(names: Sequence[str], begin: int, limit: int, size: int) -> bytes:
    chosen = [{"metadata": {"name": name}, "data": "x" * size} for name in names[begin : begin + limit]]
    end = begin + limit
    metadata = {"resourceVersion": "7", **({"continue": f"from {end}"} if end < len(names) else {})}
    return answer_with(json.dumps({"items": chosen, "metadata": metadata}).encode())


@pytest.mark.parametrize("size", [0, MAX_PAGE // 50, MAX_PAGE // 2])
async def test_a_list_comes_in_parts_that_are_small_enough(tmp_path: Path, size: int) -> None:
    names, limits = (
        [f"n{number}" for number in range(OBJECTS_PER_PAGE + 3 if size < 100_000 else 5)],
        list[int](),
    )

    def answer(head: bytes) -> bytes:
        query = parse_qs(urlsplit(head.split()[1].decode()).query)
        assert query["a"] == ["b"]
        limits.append(int(query["limit"][0]))
        begin = int(query.get("continue", ["from 0"])[0].split()[1])
        return page(names, begin, limits[-1], size)

    async with serving(tmp_path, answer) as client:
        found = await client.list_all("/api/v1/pods?a=b")
    assert [one["metadata"]["name"] for one in found] == names
    assert limits[0] == OBJECTS_PER_PAGE
    assert limits == sorted(limits, reverse=True)


@pytest.mark.parametrize("body", [b"{}", b'{"items": {}}', b'{"items": null}'])
async def test_an_answer_without_objects_is_no_list(tmp_path: Path, body: bytes) -> None:
    async with serving(tmp_path, lambda _head: answer_with(body)) as client:
        with pytest.raises(KubernetesError, match="the answer is no list"):
            await client.list_all("/api/v1/pods")


async def test_an_object_that_is_too_long_alone_is_an_error(tmp_path: Path) -> None:
    async with serving(tmp_path, lambda _head: page(["one"], 0, 1, MAX_PAGE)) as client:
        with pytest.raises(KubernetesError, match="more than 4 MiB"):
            await client.list_all("/api/v1/pods")
