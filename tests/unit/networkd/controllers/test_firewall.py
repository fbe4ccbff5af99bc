"""The chains of the firewall follow the config, and the kernel's follow them."""

import json
from ipaddress import ip_interface

import pytest
import trio
import trio.testing

from talos.api.addresses import make_prefix
from talos.api.definitions.network_pb2 import NodeAddressSpec
from talos.api.definitions.siderolink_pb2 import ConfigSpec as SiderolinkConfigSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.config.read.loader import load
from talos.networkd.controllers.firewall import TABLE, NfTablesChainConfigController, NfTablesChainController
from talos.networkd.firewall import TRUSTED_LINKS, make_ingress_chain, make_prerouting_chain
from talos.networkd.packet_filter import make_chain
from talos.resource import ids, kinds
from talos.resource.changes import destroy_if_present, put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.testing.links import MemoryLinks

MAIN = "version: v1alpha1\nmachine: {type: worker}\n"
BLOCK = f"{MAIN}---\napiVersion: v1alpha1\nkind: NetworkDefaultActionConfig\ningress: block\n"
RULE = f"{MAIN}---\napiVersion: v1alpha1\nkind: NetworkRuleConfig\nname: a\nportSelector: {{ports: [1]}}\n"
TUNNELLED = (*TRUSTED_LINKS, "siderolinktun")


@pytest.mark.parametrize(
    ("text", "tunnel", "trusted"),
    [(BLOCK, None, TRUSTED_LINKS), (BLOCK, False, TRUSTED_LINKS), (RULE, True, TUNNELLED)],
)
async def test_chains_follow_the_config_the_addresses_and_siderolink(
    text: str, trusted: tuple[str, ...], *, tunnel: bool | None
) -> None:
    state, config = MemoryState(), load(text)
    if tunnel is not None:
        await put(state, *ids.SIDEROLINK_CONFIG, SiderolinkConfigSpec(tunnel=tunnel))

    async def list_chains() -> dict[str, object]:
        await trio.testing.wait_all_tasks_blocked()
        return {chain.id: chain.spec for chain in await state.list(kinds.NF_TABLES_CHAIN)}

    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, [NfTablesChainConfigController()])
        assert await list_chains() == {}
        await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text.encode()))
        expected = {"ingress": make_ingress_chain(config, trusted)}
        assert await list_chains() == expected
        for kind, address in (
            (ids.NODE_ADDRESS_ROUTED, "10.0.0.1/24"),
            (ids.NODE_ADDRESS_ROUTED_NO_K8S, "10.0.0.2/24"),
        ):
            await put(state, *kind, NodeAddressSpec(addresses=[make_prefix(ip_interface(address))]))
            chain = make_prerouting_chain(config, [ip_interface(address)], trusted)
            assert await list_chains() == expected | {"prerouting": chain}
        await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=MAIN.encode()))
        assert await list_chains() == {}
        nursery.cancel_scope.cancel()


async def test_chains_are_set_when_they_change_and_removed_with_their_config() -> None:
    state, links, lines = MemoryState(), MemoryLinks([]), list[str]()
    spec = make_ingress_chain(load(BLOCK))
    links.filters[TABLE] = (make_chain("left", spec),)
    async with trio.open_nursery() as nursery:
        log = Log(write=lines.append)
        await nursery.start(run_controllers, state, [NfTablesChainController(links, log)])
        await trio.testing.wait_all_tasks_blocked()
        assert links.filters[TABLE] == (), "what an earlier process has left is removed"
        for label in ("a", "b"):
            await put(state, kinds.NF_TABLES_CHAIN, "ingress", spec, labels={label: ""})
            await trio.testing.wait_all_tasks_blocked()
            assert links.filters[TABLE] == (make_chain("ingress", spec),)
        await destroy_if_present(state, kinds.NF_TABLES_CHAIN, "ingress")
        await trio.testing.wait_all_tasks_blocked()
        assert links.filters[TABLE] == ()
        nursery.cancel_scope.cancel()
    assert len(links.changes) == 3, "none without a change of the rules"
    lines = [json.loads(line)["msg"] for line in lines]
    assert lines == ["firewall: off", "firewall: ingress (7 rules)", "firewall: off"]


async def test_chains_that_another_program_removes_are_set_again_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    state, links, lines = MemoryState(), MemoryLinks([]), list[str]()
    spec = make_ingress_chain(load(BLOCK))
    await put(state, kinds.NF_TABLES_CHAIN, "ingress", spec)
    async with trio.open_nursery() as nursery:
        log = Log(write=lines.append)
        await nursery.start(run_controllers, state, [NfTablesChainController(links, log)])
        for changes in (1, 2, 3):
            await trio.sleep(60)
            assert links.filters[TABLE] == (make_chain("ingress", spec),)
            assert len(links.changes) == changes
            links.remove_filter(TABLE)
        nursery.cancel_scope.cancel()
    damage = "the table talos of nftables is changed by something else: it is set again"
    found = [json.loads(line)["msg"] for line in lines]
    assert found == ["firewall: ingress (7 rules)", damage, *["firewall: ingress (7 rules)"] * 2]


async def test_nothing_is_set_where_nothing_is_and_nothing_shall_be() -> None:
    links, lines = MemoryLinks([]), list[str]()
    async with trio.open_nursery() as nursery:
        log = Log(write=lines.append)
        await nursery.start(run_controllers, MemoryState(), [NfTablesChainController(links, log)])
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert (links.changes, lines) == ([], [])
