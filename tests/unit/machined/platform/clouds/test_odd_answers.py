"""Whatever a metadata server answers, a machine has a network or one line with the reason."""

from dataclasses import dataclass

import pytest
from tests.unit.machined.platform.clouds.cloud import CARDS, FakeServer, make_cloud_source

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.cloud import Cloud
from talos.machined.platform.clouds.registry import MODULES, find_cloud
from talos.process.fetch import Request
from talos.system.errors import UserError

ANSWERS = {
    "nothing": b"",
    "NUL bytes": b"\0\0\0\0",
    "no UTF-8": b"\xff\xfe\xfd",
    "a page": b"<!DOCTYPE html>\r\n<html><body>\xc3\xa9 \x1b[2J</body></html>\r\n",
    "deep": b"[" * 20_000,
    "a number": b"9" * 5000,
    "long": b"a" * (1 << 20),
    "many lines": b"a/b\xc3\xa9\n" * 5000,
    "a tag of YAML": b"{version: !!bool x}",
    "a list of everything": b'[null, true, 1e999, {"a": []}, "fe80::1%a b"]',
}


@dataclass
class OddServer(FakeServer):
    """Answers every request with the same bytes."""

    data: bytes = b""

    async def send(self, request: Request) -> bytes:
        self.requests.append(request)
        return self.data


async def find_mistake(cloud: Cloud, server: OddServer) -> str:
    """Why a machine of the cloud uses nothing of what the server has; empty when it does."""
    source = await make_cloud_source(server)
    try:
        await cloud.load_config(source)
        builder = NetworkBuilder(CARDS)
        cloud.describe(await cloud.load_documents(source), builder)
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("name", MODULES)
async def test_an_odd_answer(name: str, answer: str, autojump_clock: object) -> None:
    del autojump_clock
    cloud, server = find_cloud(name), OddServer({}, data=ANSWERS[answer])
    assert cloud is not None
    mistake = await find_mistake(cloud, server)
    assert not mistake or mistake.isprintable()
    assert len(mistake) < 500
    assert len(server.requests) < 100
