"""The web server on loopback, called as iPXE and machines call it."""

import http.client
import re
import socket
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

import pytest
from tests.harness.limits import REAL_TIMEOUT
from tests.harness.serving import serving

from talos.provision.pxe.script import make_config_url, make_first_script, make_script
from talos.provision.pxe.web import Site, make_names, make_server
from talos.system.errors import UserError
from talos.system.net.http_server import MAX_HEAD, BoundedServer

MAC = "52:54:00:AA:00:01"


class Client:
    """Requests the path as it is: no client's library shall clean it up."""

    def __init__(self, server: BoundedServer, logged: SimpleQueue[str]) -> None:
        self.server = server
        self.port = server.server_port
        self._logged = logged

    def next_line(self) -> str:
        """The next line that the server shows: it may do so after it has answered."""
        return self._logged.get(timeout=REAL_TIMEOUT)

    def get(self, path: str, method: str = "GET", host: str = "") -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REAL_TIMEOUT)
        connection.request(method, path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text


@pytest.fixture
def client(tmp_path: Path) -> Generator[Client]:
    assets, configs = tmp_path / "assets", tmp_path / "configs"
    (assets / "sub").mkdir(parents=True)
    configs.mkdir()
    (tmp_path / "secret.yaml").write_text("secret")
    (assets / "vmlinuz").write_bytes(b"k" * 3_000_000)
    (assets / "sub/boot.ipxe").write_text("#!ipxe\n")
    (configs / "52-54-00-aa-00-01.yaml").write_text("by mac")
    (configs / "worker-1.yaml").write_text("by hostname")
    logged: SimpleQueue[str] = SimpleQueue()
    server = make_server(
        Site(assets=assets, configs=configs, script="#!ipxe\nhello\n"), "127.0.0.1", 0, logged.put
    )
    with serving(server):
        yield Client(server, logged)


def test_the_script_and_the_files(client: Client) -> None:
    assert client.get("/boot.ipxe") == (200, "#!ipxe\nhello\n")
    assert client.get("/assets/sub/boot.ipxe") == (200, "#!ipxe\n")
    assert client.get("/assets/vmlinuz") == (200, "k" * 3_000_000)
    assert client.get("/assets/vmlinuz", "HEAD") == (200, "")
    # Each call has a thread, which writes after the client has its answer.
    assert {client.next_line() for _ in range(3)} == {
        "127.0.0.1: runs the script",
        "127.0.0.1: has loaded boot.ipxe",
        "127.0.0.1: has loaded vmlinuz, 3.0 MB",
    }


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../secret.yaml",
        "/assets/%2e%2e/secret.yaml",
        "/assets/..%2fsecret.yaml",
        "/assets//etc/passwd",
        "/assets/%2fetc/passwd",
        "/assets/sub",
        "/assets/",
        "/assets/vmlinuz%00",
        "/../secret.yaml",
        "/",
    ],
)
def test_nothing_else_can_be_had(client: Client, path: str) -> None:
    status, text = client.get(path)
    assert status == 404
    assert "secret" not in text.replace("secret.yaml", "")


def test_a_config_by_mac_address_however_it_is_written(client: Client) -> None:
    for mac in (MAC, MAC.lower(), MAC.replace(":", "-"), MAC.replace(":", "%3A")):
        assert client.get(f"/config?mac={mac}&uuid=&serial=&hostname=worker-1") == (200, "by mac")


def test_a_config_by_hostname(client: Client) -> None:
    assert client.get("/config?mac=52:54:00:00:00:09&hostname=Worker-1") == (200, "by hostname")


def test_a_missing_config_lists_the_files_looked_for(client: Client) -> None:
    status, text = client.get("/config?mac=52:54:00:00:00:09&uuid=4c4c4544")
    assert status == 404
    assert "mac=52:54:00:00:00:09 uuid=4c4c4544" in text
    assert "52-54-00-00-00-09.yaml" in text
    assert "or default.yaml" in text
    assert client.next_line() == f"127.0.0.1: {text.strip()}"


def test_the_default_config(client: Client, tmp_path: Path) -> None:
    (tmp_path / "configs/default.yaml").write_text("for all")
    assert client.get("/config") == (200, "for all")
    assert client.get("/config?serial=unknown") == (200, "for all")


def test_a_request_for_a_config_can_not_name_a_path(client: Client) -> None:
    for value in ("../secret", "..%2Fsecret", "/etc/passwd", ".hidden", "a/b", ""):
        status, text = client.get(f"/config?serial={value}&uuid={value}&hostname={value}&mac={value}")
        assert status == 404
        assert "no default.yaml" in text


def test_the_order_of_names() -> None:
    query = {"hostname": "worker", "serial": "S-1", "uuid": "u1", "mac": MAC}
    assert make_names(query) == [
        *("52:54:00:aa:00:01", "52-54-00-aa-00-01", "525400aa0001"),
        *("u1", "S-1", "s-1", "worker", "default"),
    ]


def test_a_port_in_use_is_one_line(client: Client, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"--port: can't listen on 127.0.0.1:{client.port}"):
        make_server(Site(assets=tmp_path, script=""), "127.0.0.1", client.port, lambda _: None)


def test_the_script_names_the_config_and_the_arguments() -> None:
    assert make_first_script("http://10.0.0.2:8080").splitlines() == [
        "#!ipxe",
        (
            "chain --replace http://10.0.0.2:8080/start?mac=${mac}&uuid=${uuid}"
            "&serial=${serial:uristring}&hostname=${hostname:uristring}"
        ),
    ]
    query = {"mac": MAC, "uuid": "", "serial": "a b\n#", "other": "x"}
    url = make_config_url("http://10.0.0.2:8080", query, "secret")
    assert make_script(["talos.dashboard.disabled=1"], url).splitlines() == [
        "#!ipxe",
        (
            "set arguments talos.config=http://10.0.0.2:8080/config?mac=52%3A54%3A00%3AAA%3A00%3A01"
            "&serial=a+b%0A%23&token=secret talos.dashboard.disabled=1"
        ),
        "chain --replace assets/boot.ipxe",
    ]
    assert make_script([]).splitlines()[1] == "set arguments"


def test_an_argument_with_a_blank_is_refused() -> None:
    with pytest.raises(UserError, match="--argument: 'a b' can't be a kernel argument"):
        make_script(["a b"])


@pytest.fixture
def strict(tmp_path: Path) -> Generator[Client]:
    """A server that gives each config once, to the machine that has run its script."""
    (tmp_path / "default.yaml").write_text("keys")
    logged: SimpleQueue[str] = SimpleQueue()
    site = Site(assets=tmp_path, configs=tmp_path, base="http://here", arguments=("pti=on",))
    with serving(make_server(site, "127.0.0.1", 0, logged.put)) as server:
        yield Client(server, logged)


def find_place(script: str, host: str = r"127\.0\.0\.1:\d+") -> str:
    """The path of the config in a machine's script; empty without one. ``host`` is a pattern."""
    match = re.search(rf"^set arguments talos\.config=http://{host}(/\S+)", script, re.MULTILINE)
    return match[1] if match else ""


def test_scripts_name_the_server_by_the_address_that_was_called(strict: Client) -> None:
    for host in ("10.0.2.2:8080", "boot.example", "[fd00::2]:80"):
        assert f"chain --replace http://{host}/start?" in strict.get("/boot.ipxe", host=host)[1]
        script = strict.get(f"/start?mac={MAC}", host=host)[1]
        assert find_place(script, re.escape(host))
    for host in ("a b", "a\tx", "x/y", "x@y", "[", "a:b", "x" * 300):
        assert "chain --replace http://here/start?" in strict.get("/boot.ipxe", host=host)[1]
        assert find_place(strict.get(f"/start?mac={MAC}", host=host)[1], "here")


def test_a_config_is_given_once_to_the_machine_that_ran_its_script(strict: Client) -> None:
    assert strict.get(f"/config?mac={MAC}")[0] == 404, "a MAC address is no secret"
    assert strict.get(f"/config?mac={MAC}&token=")[0] == 404
    older = find_place(strict.get(f"/start?mac={MAC}&uuid=&serial=&hostname=")[1])
    place = find_place(strict.get(f"/start?mac={MAC.lower().replace(':', '-')}")[1])
    assert strict.get(older)[0] == 404, "the machine has begun anew"
    assert strict.get(place.replace("00-01", "00-02"))[0] == 404, "it is another machine's"
    assert strict.get(place, "HEAD")[0] == 404
    assert strict.get(place) == (200, "keys")
    assert strict.get(place)[0] == 404
    status, script = strict.get(f"/start?mac={MAC}")
    assert (status, find_place(script)) == (200, "")
    assert "set arguments pti=on\n" in script, "it boots into maintenance mode"
    other = find_place(strict.get("/start?mac=52:54:00:00:00:09")[1])
    assert strict.get(other) == (200, "keys")


def test_a_machine_without_a_mac_address_gets_no_config(strict: Client) -> None:
    for query in ("", "mac=", "mac=x%0Aset", "uuid=1"):
        status, script = strict.get(f"/start?{query}")
        assert (status, find_place(script)) == (200, "")


def test_a_request_that_no_client_sends_is_refused_in_one_short_line(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=REAL_TIMEOUT) as raw:
        raw.sendall(b"GET http://[x/ HTTP/1.0\r\n\r\n")
        assert b" 404 " in raw.recv(1 << 16)
    assert client.next_line() == "127.0.0.1: http://[x/ is no path"
    assert client.get(f"/assets/{'a' * 8000}")[0] == 404
    assert len(client.next_line()) < 400


def test_a_head_without_an_end_ends_the_connection(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=REAL_TIMEOUT) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (MAX_HEAD // 6))
        answer = raw.recv(1 << 16)
    assert b" 431 " in answer


def test_a_client_with_many_connections_leaves_room_for_others(client: Client) -> None:
    server, own = client.server, client.server.max_per_client
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(("127.0.0.1", client.port))) for _ in range(own)]
        # Each is in its thread when it has an answer.
        for one in held:
            one.sendall(b"GET /boot.ipxe HTTP/1.1\r\n\r\n")
            assert one.recv(1 << 16)
        extra = stack.enter_context(socket.create_connection(("127.0.0.1", client.port)))
        assert extra.recv(1) == b""
        other = stack.enter_context(
            socket.create_connection(("127.0.0.1", client.port), source_address=("127.0.0.2", 0))
        )
        other.sendall(b"GET /boot.ipxe HTTP/1.1\r\n\r\n")
        assert other.recv(1 << 16).startswith(b"HTTP/1.1 200")
    assert own < server.max_connections
