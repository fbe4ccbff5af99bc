"""The ingress firewall: MachineConfig → NfTablesChain → nftables."""

import trio

from talos.config.active import PARTIAL_CONFIG_INPUTS, read_partial_config
from talos.config.contract import SIDEROLINK_TUNNEL_LINK
from talos.networkd.firewall import (
    INGRESS,
    PREROUTING,
    TRUSTED_LINKS,
    has_firewall,
    make_ingress_chain,
    make_prerouting_chain,
)
from talos.networkd.packet_filter import make_chain
from talos.resource import ids, kinds
from talos.resource.addresses import parse_interface
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output, Reconciler
from talos.system.logging import Log
from talos.system.net.links import Links
from talos.system.net.nftables import Chain

TABLE = "talos"
"""Ours, for both versions of IP; other programs have their own."""


class NfTablesChainConfigController(Reconciler):
    """MachineConfig, NodeAddress, SiderolinkConfig → NfTablesChain, nothing where nothing is filtered."""

    name = "network.NfTablesChainConfigController"
    inputs = (*PARTIAL_CONFIG_INPUTS, Input(kinds.NODE_ADDRESS), Input(*ids.SIDEROLINK_CONFIG))
    outputs = (Output(kinds.NF_TABLES_CHAIN, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Follow the config and the node's own addresses."""
        config = await read_partial_config(runtime)
        addresses = await runtime.get_or_none(*ids.NODE_ADDRESS_ROUTED_NO_K8S)
        if addresses is None:
            addresses = await runtime.get_or_none(*ids.NODE_ADDRESS_ROUTED)
        siderolink = await runtime.get_or_none(*ids.SIDEROLINK_CONFIG)
        tunnel = (SIDEROLINK_TUNNEL_LINK,) if siderolink is not None and siderolink.spec.tunnel else ()
        trusted = *TRUSTED_LINKS, *tunnel
        async with runtime.track_outputs():
            if config is None or not has_firewall(config):
                return
            await runtime.put(kinds.NF_TABLES_CHAIN, INGRESS, make_ingress_chain(config, trusted))
            if addresses is not None:
                own = [parse_interface(prefix) for prefix in addresses.spec.addresses]
                chain = make_prerouting_chain(config, own, trusted)
                await runtime.put(kinds.NF_TABLES_CHAIN, PREROUTING, chain)


class NfTablesChainController(Controller):
    """Sets the chains in the kernel, all in one transaction, and again when another program removes some."""

    name = "network.NfTablesChainController"
    inputs = (Input(kinds.NF_TABLES_CHAIN),)

    def __init__(self, links: Links, log: Log) -> None:
        self._links = links
        self._log = log

    async def run(self, runtime: ControllerRuntime) -> None:
        """Reconcile until cancelled."""
        async with self._links.watch_filter(TABLE) as damages, trio.open_nursery() as nursery:
            applied: list[Chain] | None = [] if not await self._links.has_filter(TABLE) else None

            async def listen() -> None:
                nonlocal applied
                async for _ in damages:
                    self._log.once(
                        f"the table {TABLE} of nftables is changed by something else: it is set again"
                    )
                    applied = None
                    runtime.queue_reconcile()

            nursery.start_soon(listen)
            async for _ in runtime.events():
                chains = [
                    make_chain(chain.id, chain.spec) for chain in await runtime.list(kinds.NF_TABLES_CHAIN)
                ]
                if chains == applied:
                    continue
                await self._links.replace_filter(TABLE, chains)
                damages.forget()
                applied = chains
                names = ", ".join(f"{chain.name} ({len(chain.rules)} rules)" for chain in chains)
                self._log.info(f"firewall: {names or 'off'}")
                runtime.reset_backoff()
