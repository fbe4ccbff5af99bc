"""Addresses that Hetzner's API moves, against a server that has its form of servers, networks, addresses."""

import json
from collections.abc import Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any, override

import pytest
from tests.harness.serving import serving

from talos.clusterd.hcloud import CloudError, HetznerCloud

VIRTUAL, FLOATING = ip_address("10.0.0.100"), ip_address("203.0.113.9")


def make_server(number: int, *aliases: str) -> dict[str, Any]:
    return {"id": number, "private_net": [{"network": 7, "ip": f"10.0.0.{number}", "alias_ips": [*aliases]}]}


@dataclass
class Cloud:
    """What the API has. ``own`` is the server that calls; ``busy`` so many changes are refused at first."""

    own: str = "1"
    servers: list[dict[str, Any]] = field(
        default_factory=lambda: [
            make_server(1, "10.0.0.50"),
            make_server(2, "10.0.0.60", str(VIRTUAL)),
            *(make_server(number) for number in range(3, 100)),
        ]
    )
    floating: list[dict[str, Any]] = field(
        default_factory=lambda: [
            {"id": 5, "ip": "2001:db8::/64", "server": None},
            {"id": 6, "ip": str(FLOATING), "server": 2},
        ]
    )
    changes: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    tokens: set[str] = field(default_factory=set[str])
    busy: int = 0
    status: int = 0
    url: str = ""

    def client(self) -> HetznerCloud:
        return HetznerCloud(token="secret", api=f"{self.url}/v1", metadata=f"{self.url}/metadata")

    def answer(self, path: str) -> Any:
        name, _, query = path.removeprefix("/v1/").partition("?")
        match name.split("/"):
            case ["servers", number]:
                return {"server": next(one for one in self.servers if str(one["id"]) == number)}
            case ["networks", "7"]:
                return {"network": {"id": 7, "ip_range": "10.0.0.0/16"}}
            case ["servers"]:
                page = int(query.rpartition("=")[2])
                more = page + 1 if page * 50 < len(self.servers) else None
                found = self.servers[(page - 1) * 50 : page * 50]
                return {"servers": found, "meta": {"pagination": {"next_page": more}}}
            case ["floating_ips"]:
                return {"floating_ips": self.floating}
            case _:
                raise AssertionError(path)


@pytest.fixture
def cloud() -> Generator[Cloud]:
    cloud = Cloud()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metadata/instance-id":
                assert "Authorization" not in self.headers
                self.reply(200, cloud.own.encode())
                return
            cloud.tokens.add(self.headers["Authorization"])
            if cloud.status:
                self.reply(cloud.status, b'{"error": {"message": "unable to authenticate"}}')
            else:
                self.reply(200, json.dumps(cloud.answer(self.path)).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if cloud.busy:
                cloud.busy -= 1
                self.reply(423, b'{"error": {"message": "server is locked"}}')
                return
            cloud.changes.append((self.path.removeprefix("/v1/"), body))
            self.reply(201, b"{}")

        def reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        cloud.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield cloud


def test_an_alias_leaves_its_owner_and_no_other_alias_goes(cloud: Cloud) -> None:
    cloud.busy = 1
    cloud.client().take(VIRTUAL)
    assert cloud.changes == [
        ("servers/2/actions/change_alias_ips", {"network": 7, "alias_ips": ["10.0.0.60"]}),
        ("servers/1/actions/change_alias_ips", {"network": 7, "alias_ips": ["10.0.0.50", str(VIRTUAL)]}),
    ]
    assert cloud.tokens == {"Bearer secret"}


def test_an_owner_on_a_later_page_is_found(cloud: Cloud) -> None:
    cloud.servers[1]["private_net"][0]["alias_ips"] = []
    cloud.servers[90]["private_net"][0]["alias_ips"] = [str(VIRTUAL)]
    cloud.client().take(VIRTUAL)
    assert [path for path, _ in cloud.changes] == [
        "servers/91/actions/change_alias_ips",
        "servers/1/actions/change_alias_ips",
    ]


def test_nothing_is_changed_of_what_is_right(cloud: Cloud) -> None:
    cloud.own = "2"
    cloud.client().take(VIRTUAL)
    assert cloud.changes == []


@pytest.mark.parametrize(("address", "number"), [(str(FLOATING), 6), ("2001:db8::1", 5)])
def test_a_floating_address_is_assigned(cloud: Cloud, address: str, number: int) -> None:
    cloud.client().take(ip_address(address))
    assert cloud.changes == [(f"floating_ips/{number}/actions/assign", {"server": 1})]


def test_what_goes_wrong_is_one_line_without_the_token(cloud: Cloud) -> None:
    with pytest.raises(
        CloudError, match="neither in a private network of this server nor a floating address"
    ):
        cloud.client().take(ip_address("198.51.100.1"))
    cloud.own = "<html>"
    with pytest.raises(CloudError, match="this is no server of Hetzner's cloud"):
        cloud.client().take(VIRTUAL)
    cloud.own, cloud.status = "1", 401
    with pytest.raises(CloudError, match=r"^/servers/1: 401 unable to authenticate$"):
        cloud.client().take(VIRTUAL)
    with pytest.raises(CloudError, match="refused"):
        HetznerCloud(token="secret", api="http://127.0.0.1:1/v1", metadata=f"{cloud.url}/metadata").take(
            VIRTUAL
        )


@pytest.mark.parametrize("own", ["1" * 5000, "\u00b2", "-1", ""])
def test_a_number_that_is_none_is_no_server(cloud: Cloud, own: str) -> None:
    cloud.own = own
    with pytest.raises(CloudError, match="this is no server of Hetzner's cloud"):
        cloud.client().take(VIRTUAL)


def test_a_network_that_is_none_is_one_line(cloud: Cloud) -> None:
    cloud.floating.insert(0, {"id": 4, "ip": "2001:db8::/\n900", "server": None})
    with pytest.raises(CloudError, match=r"^a reply makes no sense: .*2001:db8"):
        cloud.client().take(FLOATING)
