"""A node without a config: unauthenticated callers may read and configure it, afterwards only its owner."""

import asyncio
import re
import secrets
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from pyroute2 import IPRoute
from tests.harness.cluster import Unconfigured, eventually, unconfigured_node

from talos.api.machine.machine_pb2 import RebootRequest, RebootResponse
from talos.api.methods import methods
from talos.api.rpc import Code, RpcError
from talos.client.session import open_session
from talos.client.target import Target
from talos.system.process import CommandResult

IFA_F_NODAD = 0x02
"""linux/if_addr.h: the address is used at once."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unconfigured]:
    with unconfigured_node(tmp_path_factory.mktemp("unconfigured")) as running:
        yield running


def output_of(result: CommandResult) -> str:
    return f"{result.stdout}{result.stderr}"


def test_unauthenticated_callers_may_read(node: Unconfigured) -> None:
    text = node.insecure("version").stdout
    assert f"NODE:        {node.address}" in text
    assert "RBAC" not in text
    (status,) = node.cluster.resource("machinestatus", "--insecure", "-n", node.address)
    assert status["spec"]["stage"] == "maintenance"  # type: ignore[index]
    assert node.address in node.insecure("get", "addresses").stdout
    assert "maintenance" in node.insecure("logs", "machined").stdout


def test_unauthenticated_callers_may_not_do_more(node: Unconfigured) -> None:
    result = node.insecure("get", "apicertificates", check=False)
    assert result.returncode != 0
    assert "not authorized" in output_of(result)
    result = node.insecure("get", "disks", "--cert-fingerprint", "A" * 43 + "=", check=False)
    assert result.returncode != 0
    assert "has the fingerprint" in output_of(result)


class Unreadable:
    """A request that can't be parsed: it shows whether a call is allowed without its effect."""

    def SerializeToString(self, **_: object) -> bytes:  # noqa: N802 - protobuf's name
        return b"\xff"


async def find_wrong(address: str, role: str = "os:reader") -> list[str]:
    """Methods that are not allowed or refused as in their row, for a client without a certificate."""
    wrong: list[str] = []
    async with open_session(Target(endpoints=(), nodes=(address,), insecure=True)) as session:
        for path, method in methods().items():
            allowed = role in method.roles or method.maintenance_reader
            expected = {Code.INVALID_ARGUMENT, Code.UNIMPLEMENTED} if allowed else {Code.PERMISSION_DENIED}
            try:
                await session.unary(address, path, cast("Message", Unreadable()), Empty)
                wrong.append(f"{path}: answered")
            except RpcError as error:
                if error.code not in expected:
                    wrong.append(f"{path}: {error.code.name} {error}")
    return wrong


def test_methods_without_a_certificate(node: Unconfigured) -> None:
    assert asyncio.run(find_wrong(node.address)) == []


async def find_failing(address: str) -> list[str]:
    """Methods that fail by an empty request, other than as it is incomplete or not allowed."""
    refusals = {Code.PERMISSION_DENIED, Code.UNIMPLEMENTED, Code.INVALID_ARGUMENT}
    failing: list[str] = []
    async with open_session(Target(endpoints=(), nodes=(address,), insecure=True)) as session:
        for path in methods():
            answers = 0
            try:
                async with asyncio.timeout(1), session.stream(address, path, Empty(), Empty) as replies:
                    async for _ in replies:
                        answers += 1
            except TimeoutError:
                pass  # it follows something
            except RpcError as error:
                is_refused = error.code in refusals or "in container mode" in str(error)
                if answers or not is_refused:
                    failing.append(f"{path}: {error}")
    return failing


def test_no_method_fails_by_an_empty_request(node: Unconfigured) -> None:
    assert "\n".join(asyncio.run(find_failing(node.address))) == ""


@contextmanager
def siderolink(pid: int, network: str) -> Generator[None]:
    """A link between this machine, with the network's first address, and a node's `siderolink`."""
    name = f"sl{secrets.token_hex(4)}"
    with IPRoute() as netlink:
        peer: dict[str, object] = {"ifname": "siderolink", "net_ns_pid": pid}
        netlink.link("add", ifname=name, kind="veth", peer=peer)
        try:
            (index,) = netlink.link_lookup(ifname=name)
            netlink.addr("add", index=index, address=f"{network}:1", prefixlen=64, flags=IFA_F_NODAD)
            netlink.link("set", index=index, state="up")
            yield
        finally:
            for index in netlink.link_lookup(ifname=name):  # none when the node's end has gone with the node
                netlink.link("del", index=index)


async def reboot(address: str) -> None:
    async with open_session(Target(endpoints=(), nodes=(address,), insecure=True)) as session:
        path = "/machine.MachineService/Reboot"
        await session.unary(address, path, RebootRequest(), RebootResponse)


def test_the_manager_at_the_end_of_siderolink_is_the_administrator(
    node: Unconfigured, tmp_path: Path
) -> None:
    first, second, third, fourth = (secrets.token_hex(size) for size in (1, 2, 2, 1))
    network = f"fd{first}:{second}:{third}:{fourth}03:"  # the eighth byte is SideroLink's
    path = tmp_path / "siderolink.yaml"
    path.write_text(
        "apiVersion: v1alpha1\nkind: LinkConfig\nname: siderolink\nup: true\n"
        f'addresses: [{{address: "{network}:2/64"}}]\n'
    )
    (before,) = node.cluster.nodes

    def answers() -> None:
        result = node.cluster.talosctl("version", "--insecure", "-n", f"{network}:2", check=False)
        assert result.returncode == 0, output_of(result)

    with siderolink(before.pid, network):
        node.insecure("apply-config", "--file", str(path))
        eventually("it has the address", answers)
        assert asyncio.run(find_wrong(f"{network}:2", "os:admin")) == []
        assert asyncio.run(find_wrong(node.address)) == [], "everybody else is a reader"
        asyncio.run(reboot(f"{network}:2"))

    def is_back() -> None:
        (after,) = node.cluster.nodes
        assert after.pid not in {0, before.pid}
        assert node.insecure("version", check=False).returncode == 0

    eventually("it is in maintenance again", is_back)


def test_the_error_names_the_next_step(node: Unconfigured) -> None:
    result = node.secure("version", check=False)
    assert result.returncode != 0
    assert "maintenance mode needs --insecure" in output_of(result)
    assert "Traceback" not in output_of(result)


def test_mistakes_of_a_config_are_listed_at_once(node: Unconfigured, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("version: v1alpha1\nmachine:\n  type: manager\n  tokn: a\n")
    result = node.insecure("apply-config", "--file", str(path), check=False)
    assert result.returncode != 0
    assert all(word in output_of(result) for word in ("machine.type", "tokn"))


def test_a_part_of_a_config_configures_the_network(node: Unconfigured, tmp_path: Path) -> None:
    path = tmp_path / "network.yaml"
    path.write_text(
        "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\naddresses: [{address: 192.0.2.7/24}]\n---\n"
        "apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: waiting\n"
    )
    node.insecure("apply-config", "--file", str(path))

    def has_network() -> None:
        assert "192.0.2.7/24" in node.insecure("get", "addresses").stdout
        assert "waiting" in node.insecure("get", "hostname").stdout

    eventually("the network is as in the documents", has_network)
    (status,) = node.cluster.resource("machinestatus", "--insecure", "-n", node.address)
    assert status["spec"]["stage"] == "maintenance"  # type: ignore[index]


def test_a_config_makes_it_its_owners(node: Unconfigured) -> None:
    (line,) = re.findall(r"--cert-fingerprint (\S+) --file", node.console())[-1:]
    argv = ("apply-config", "--cert-fingerprint", line, "--file", str(node.config))
    dry = node.insecure(*argv, "--dry-run")
    assert "Dry run summary" in output_of(dry)
    assert node.insecure("version").stdout

    node.insecure(*argv)

    def is_secure() -> None:
        assert node.secure("version", check=False).returncode == 0

    eventually("the owner's client is served", is_secure)

    def has_its_own_network() -> None:
        assert "192.0.2.7/24" not in node.secure("get", "addresses").stdout
        assert "waiting" not in node.secure("get", "hostname").stdout

    eventually("the network is that of the config", has_its_own_network)
    result = node.insecure("version", check=False)
    assert result.returncode != 0
    assert "leave out --insecure" in output_of(result)
    assert "Traceback" not in node.console()
