"""The client of etcd's JSON gateway, and what clients of all members see of it."""

import base64
import json
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml
from driver.client_certificate import make_context
from driver.etcd import Answer, Member
from driver.workload import Keys, Observations, read_at_all_members, running_clients
from tests.harness.serving import serving
from tests.harness.tls import make_server_tls

from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType


def decode(text: str) -> str:
    return base64.b64decode(text).decode()


class Gateway(BaseHTTPRequestHandler):
    """One register for each key, as etcd's gateway has it: numbers are texts, nothing is left out empty."""

    protocol_version = "HTTP/1.1"
    values: dict[str, str]
    revision = 1

    def do_POST(self) -> None:
        kind = type(self)
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer: dict[str, object] = {}
        if self.path.endswith("put"):
            kind.revision += 1
            kind.values[request["key"]] = request["value"]
        elif request["key"] in kind.values:
            answer = {"kvs": [{"key": request["key"], "value": kind.values[request["key"]]}]}
        answer["header"] = {"cluster_id": "7", "revision": str(kind.revision)}
        data = json.dumps(answer).encode()
        status = 503 if decode(request["key"]) == "refused" else 200
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@dataclass(frozen=True)
class Served:
    port: int
    context: ssl.SSLContext


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    authority = CertificateAuthority.generate(KeyType.P256, organizations=["etcd"]).pem
    server = CertificateAuthority.from_pem(authority.crt, authority.key).issue(usages=Usage.SERVER)
    pair = {"crt": authority.crt, "key": authority.key}
    encoded = {name: base64.b64encode(data).decode() for name, data in pair.items()}
    (tmp_path / "secrets").write_text(yaml.safe_dump({"certs": {"etcd": encoded}}))
    Gateway.values, Gateway.revision = {}, 1
    tls = make_server_tls(tmp_path, server, clients=authority.crt)
    with serving(HTTPServer(("127.0.0.1", 0), Gateway), tls) as http:
        yield Served(http.server_port, make_context(tmp_path / "secrets", tmp_path, "etcd"))


def test_what_is_written_is_read(served: Served) -> None:
    member = Member(served.port, served.context, 5)
    assert member.read("a") == ("", Answer(cluster_id=7, revision=1))
    assert member.put("a", "ü") == Answer(cluster_id=7, revision=2)
    assert member.read("a")[0] == "ü"
    with pytest.raises(AssertionError, match="503"):
        member.put("refused", "x")
    member.close()


def test_a_member_that_is_down_fails_the_call(served: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        member = Member(silent.getsockname()[1], served.context, 0.05)
        with pytest.raises(AssertionError, match="timed out"):
            member.read("a")


@dataclass
class Register:
    """A member in memory, which acknowledges and may forget."""

    values: dict[str, str]
    revision: int = 0
    forgets: bool = False

    def put(self, key: str, value: str) -> Answer:
        self.revision += 1
        if not self.forgets:
            self.values[key] = value
        return Answer(cluster_id=7, revision=self.revision)

    def read(self, key: str) -> tuple[str, Answer]:
        return self.values.get(key, ""), Answer(cluster_id=7, revision=self.revision)


@pytest.mark.parametrize("forgets", [False, True])
def test_a_lost_write_is_found(forgets: bool) -> None:
    register = Register({}, forgets=forgets)
    members: dict[str, Keys] = {"one": register}
    with running_clients(members, 1, (0.0001, 0.0002)) as seen:
        while seen.history.count_acknowledged() < 20:
            pass
    read_at_all_members(members, seen)
    assert bool(seen.find_problems()) is forgets
    assert "acknowledged writes" in seen.describe()


def test_the_longest_pause_includes_the_last_one() -> None:
    now = [10.0]
    seen = Observations(lambda: now[0])
    seen.note_end()
    assert seen.longest_gap == 0
    for time, revision in ((12.0, 1), (15.0, 2), (16.0, 3)):
        now[0] = time
        seen.note_write(Answer(cluster_id=7, revision=revision), f"write {revision}")
    assert seen.longest_gap == 3
    now[0] = 21.0
    seen.note_end()
    assert seen.longest_gap == 5
    seen.note_write(Answer(cluster_id=7, revision=3), "another")
    assert "revision 3 was given twice" in seen.problems[0]
    assert "not one cluster" in seen.find_problems()[-1]
