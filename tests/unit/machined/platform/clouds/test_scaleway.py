"""Scaleway, by answers in the form of its documentation."""

import json
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from tests.unit.machined.platform.clouds.cloud import FakeServer, describe, load_user_data, show

from talos.machined.platform.clouds.scaleway import BASE, CLOUD
from talos.machined.platform.clouds.server import Request, send_in_thread
from talos.system.errors import UserError

ADDRESSES = [
    {"address": "192.0.2.10", "netmask": "32", "gateway": "62.210.0.1", "family": "inet"},
    {"address": "2001:bc8::1", "netmask": "64", "gateway": "fe80::1", "family": "inet6"},
]
METADATA: dict[str, object] = {
    "id": "11111111-2222-3333-4444-555555555555",
    "name": "scw-vigilant-shannon",
    "hostname": "scw-vigilant-shannon",
    "commercial_type": "DEV1-S",
    "private_ip": None,
    "tags": ["web"],
    "location": {"platform_id": "14", "hypervisor_id": "201", "zone_id": "fr-par-1"},
    "public_ip": ADDRESSES[0],
    "public_ips": ADDRESSES,
    "public_ips_v4": ADDRESSES[:1],
    "public_ips_v6": ADDRESSES[1:],
    "ipv6": ADDRESSES[1],
}
SHOWN = [
    "link eth0",
    "address eth0 2001:bc8::1/64",
    "route eth0 169.254.42.42/32 metric 1024",
    "route eth0 default via fe80::1 metric 2048",
    "dhcp4 eth0",
    "external 192.0.2.10",
]


def make_server(**change: object) -> FakeServer:
    return FakeServer(
        {
            f"{BASE}/conf?format=json": json.dumps(METADATA | change),
            f"{BASE}/user_data/cloud-init": "version: v1alpha1\n",
        }
    )


async def test_what_a_machine_learns() -> None:
    spec = await describe(CLOUD, make_server())
    assert show(spec) == SHOWN
    metadata = spec.metadata
    assert (metadata.region, metadata.zone, metadata.instance_type) == ("fr-par", "fr-par-1", "DEV1-S")
    assert metadata.provider_id == "scaleway://instance/fr-par-1/11111111-2222-3333-4444-555555555555"
    assert metadata.hostname == "scw-vigilant-shannon"


async def test_older_documents_have_one_address_of_each_kind() -> None:
    assert show(await describe(CLOUD, make_server(public_ips=[]))) == SHOWN


async def test_without_a_public_address_of_ipv4_there_is_no_dhcp() -> None:
    spec = await describe(CLOUD, make_server(public_ips=ADDRESSES[1:]))
    assert show(spec) == SHOWN[:4]
    assert show(await describe(CLOUD, make_server(public_ips=None, public_ip=None, ipv6=None))) == []


async def test_nothing_is_known() -> None:
    spec = await describe(CLOUD, FakeServer({}))
    assert (show(spec), spec.metadata.provider_id) == ([], "")


async def test_its_config_is_for_root() -> None:
    server = make_server()
    assert await load_user_data(CLOUD, server) == b"version: v1alpha1\n"
    assert [request.low_port for request in server.requests] == [True]
    assert await load_user_data(CLOUD, FakeServer({})) == b""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have such a port")
async def test_a_request_from_a_low_port() -> None:
    ports: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ports.append(self.client_address[1])
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/"
        assert await send_in_thread(Request(url=url, low_port=True)) == b""
        thread.join()
    assert 600 <= ports[0] < 1024


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"public_ips": [1]}, "public address: a mapping"),
        ({"public_ips": [{"address": "::x", "netmask": "64"}]}, "'::x/64'"),
        ({"public_ips": [{"address": "1.2.3"}]}, "'1.2.3'"),
        ({"location": "x"}, "location: a mapping"),
        ({"id": ["\ud800"]}, "id: a short text"),
    ],
)
async def test_a_mistake_is_named_on_one_line(change: dict[str, object], where: str) -> None:
    with pytest.raises(UserError, match=rf"format=json.*{where}") as caught:
        await describe(CLOUD, make_server(**change))
    assert str(caught.value).isprintable()
