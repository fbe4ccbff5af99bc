"""Routing rules, static hosts and probes of the machine config."""

from dataclasses import replace
from functools import partial

import pytest
import trio
import trio.testing
from tests.unit.networkd.test_links import Node

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import HTTPProbeSpec, ProbeSpecSpec, TCPProbeSpec
from talos.networkd.probe import ProbeError, check_http, split_endpoint
from talos.resource import ids, kinds
from talos.resource.changes import destroy_if_present, put, wait_for
from talos.system.net.links import RTPROT_STATIC, RuleState

MAIN = "version: v1alpha1\nmachine: {type: worker}\n"
RULES = """\
---
apiVersion: v1alpha1
kind: RoutingRuleConfig
name: "1000"
src: 10.0.0.0/8
table: "100"
fwMark: 256
---
apiVersion: v1alpha1
kind: RoutingRuleConfig
name: "1001"
action: blackhole
"""


async def ours(node: Node) -> list[RuleState]:
    return [rule for rule in await node.links.rules() if rule.protocol == RTPROT_STATIC]


async def test_rules_of_the_config_are_set_repaired_changed_and_removed() -> None:
    node = Node()
    async with node.running():
        await node.config(MAIN + RULES)
        first, *both = await ours(node)
        assert (first.family, first.priority, str(first.source), first.table) == (2, 1000, "10.0.0.0/8", 100)
        assert (first.mark, first.mask) == (256, 0xFFFFFFFF)
        assert [(rule.family, rule.action) for rule in both] == [(2, 6), (10, 6)]
        status = (await node.state.get(kinds.ROUTING_RULE_STATUS, "inet4/01000")).spec
        assert status.table == 100
        spec = (await node.state.get(kinds.ROUTING_RULE_SPEC, "inet4/01000")).spec
        assert spec.config_layer == enums_pb2.CONFIG_MACHINE_CONFIGURATION
        await node.links.remove_rule(first)
        await node.links.add_rule(replace(first, table=7))
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert first in await ours(node), "a foreign change is repaired"
        assert len(await ours(node)) == 3
        await node.config(MAIN + RULES.replace('"100"', '"200"'))
        assert [rule.table for rule in await ours(node) if rule.priority == 1000] == [200]
        await node.config(MAIN)
        assert await ours(node) == []


async def test_static_hosts_are_those_of_documents_and_of_the_main_one() -> None:
    node = Node()
    async with node.running():
        await node.config(
            "machine:\n  type: worker\n  network:\n    extraHostEntries:\n"
            '    - {ip: 10.0.0.5, aliases: [a, "b\\nc"]}\n    - {ip: nowhere, aliases: [d]}\n'
            "---\napiVersion: v1alpha1\nkind: StaticHostConfig\n"
            "name: fd00::5\nhostnames: [a, e.example.org]\n"
        )
        found = {
            host.id: [item.ip for item in host.spec.addresses]
            for host in await node.state.list(kinds.STATIC_HOST)
        }
        assert found.keys() == {"a", "e.example.org"}
        assert [len(address) for address in found["a"]] == [4, 16]


async def answer(stream: trio.SocketStream, status: str) -> None:
    async with stream:
        await stream.receive_some()
        await stream.send_all(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())


async def test_probes_report_what_they_find_and_decide_on_connectivity() -> None:
    node = Node()
    async with node.running(), trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, partial(answer, status="204 No Content"), [listener])
        await node.config(
            f"{MAIN}---\napiVersion: v1alpha1\nkind: TCPProbeConfig\nname: a\nendpoint: 127.0.0.1:{port}\n"
            f"---\napiVersion: v1alpha1\nkind: HTTPProbeConfig\nname: b\nurl: http://127.0.0.1:{port}/x\n"
            "---\napiVersion: v1alpha1\nkind: TCPProbeConfig\nname: c\nendpoint: 127.0.0.1:1\n"
        )
        for probe in (f"tcp:127.0.0.1:{port}", f"http:http://127.0.0.1:{port}/x"):
            await wait_for(node.state, kinds.PROBE_STATUS, probe, lambda status: status.spec.success)
        failed = await wait_for(
            node.state, kinds.PROBE_STATUS, "tcp:127.0.0.1:1", lambda status: not status.spec.success
        )
        assert failed.spec.last_error == "Connection refused"
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not (await node.state.get(*ids.NETWORK_STATUS)).spec.connectivity_ready
        await node.config(
            f"{MAIN}---\napiVersion: v1alpha1\nkind: TCPProbeConfig\nname: a\nendpoint: 127.0.0.1:{port}\n"
        )
        assert (await node.state.get(*ids.NETWORK_STATUS)).spec.connectivity_ready
        nursery.cancel_scope.cancel()


async def test_a_probe_of_a_trial_check_does_not_decide_on_connectivity() -> None:
    node = Node()
    async with node.running():
        await node.config(
            f"{MAIN}---\napiVersion: v1alpha1\nkind: TrialCheckConfig\nname: a\ntcp: {{endpoint: 'a:1'}}\n"
        )
        assert await node.state.list(kinds.PROBE_SPEC) == [], "at rest nothing is probed"
        before = (await node.state.get(*ids.NETWORK_STATUS)).spec.connectivity_ready
        spec = ProbeSpecSpec(tcp=TCPProbeSpec(endpoint="127.0.0.1:1"))
        await put(node.state, kinds.PROBE_SPEC, "trial:a", spec, owner="runtime.TrialProbeController")
        await wait_for(node.state, kinds.PROBE_STATUS, "trial:a", lambda status: bool(status.spec.last_error))
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert (await node.state.get(*ids.NETWORK_STATUS)).spec.connectivity_ready == before
        await destroy_if_present(
            node.state, kinds.PROBE_SPEC, "trial:a", owner="runtime.TrialProbeController"
        )
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert await node.state.list(kinds.PROBE_STATUS) == []


async def test_a_redirection_is_a_success_of_a_probe_but_not_of_a_trial_check() -> None:
    node = Node()
    async with node.running(), trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, partial(answer, status="302 Found"), [listener])
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/"
        spec = ProbeSpecSpec(http=HTTPProbeSpec())
        spec.http.url.full_path = url
        for probe in ("trial:a", "trial:a:1", f"http:{url}"):
            await put(node.state, kinds.PROBE_SPEC, probe, spec, owner="runtime.TrialProbeController")
            is_trial = probe.startswith("trial:")
            error = "HTTP status 302, a redirection, which is not followed" if is_trial else ""
            found = await wait_for(node.state, kinds.PROBE_STATUS, probe, lambda _: True)
            assert (found.spec.success, found.spec.last_error) == (not is_trial, error)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("endpoint", ["", "a", "a:", "a:99999", "[::1", ":80"])
def test_an_endpoint_that_is_none_is_an_error(endpoint: str) -> None:
    with pytest.raises(ProbeError, match="not host:port"):
        split_endpoint(endpoint)


@pytest.mark.parametrize("reply", [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 abc\r\n\r\n", b"x" * 100_000])
async def test_a_reply_that_is_no_http_is_an_error(reply: bytes) -> None:
    async def send(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(reply)

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, send, [listener])
        with pytest.raises(ProbeError):
            await check_http(f"http://127.0.0.1:{listener.socket.getsockname()[1]}/", 5, {})
        nursery.cancel_scope.cancel()
