"""Specs that need nothing but to be known: host name, resolvers, time servers."""

from talos.api.definitions.network_pb2 import (
    HostnameSpecSpec,
    HostnameStatusSpec,
    NameServerSpec,
    ResolverSpecSpec,
    ResolverStatusSpec,
    TimeServerSpecSpec,
    TimeServerStatusSpec,
)
from talos.networkd.layers import HOSTNAME_ID, RESOLVERS_ID, TIME_SERVERS_ID
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.resource import Phase


class HostnameStatusController(Reconciler):
    """Writes HostnameStatus. The kernel is told by machined, which alone may."""

    name = "network.HostnameSpecController"
    inputs = (Input(kinds.HOSTNAME_SPEC),)
    outputs = (Output(kinds.HOSTNAME_STATUS),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Follow the merged spec."""
        async with runtime.track_outputs():
            for resource in await runtime.list(kinds.HOSTNAME_SPEC):
                if resource.id == HOSTNAME_ID and resource.metadata.phase is Phase.RUNNING:
                    status = make_hostname_status(resource.spec)
                    await runtime.modify(
                        kinds.HOSTNAME_STATUS, HOSTNAME_ID, lambda spec, new=status: spec.CopyFrom(new)
                    )


def make_hostname_status(spec: HostnameSpecSpec) -> HostnameStatusSpec:
    """The host name in effect."""
    return HostnameStatusSpec(hostname=spec.hostname, domainname=spec.domainname)


class ResolverStatusController(Reconciler):
    """Writes ResolverStatus; /etc/resolv.conf is made from it by machined."""

    name = "network.ResolverSpecController"
    inputs = (Input(kinds.RESOLVER_SPEC),)
    outputs = (Output(kinds.RESOLVER_STATUS),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Follow the merged spec."""
        async with runtime.track_outputs():
            for resource in await runtime.list(kinds.RESOLVER_SPEC):
                if resource.id == RESOLVERS_ID and resource.metadata.phase is Phase.RUNNING:
                    status = make_resolver_status(resource.spec)
                    await runtime.modify(
                        kinds.RESOLVER_STATUS, RESOLVERS_ID, lambda spec, new=status: spec.CopyFrom(new)
                    )


def make_resolver_status(spec: ResolverSpecSpec) -> ResolverStatusSpec:
    """The resolvers in effect."""
    # A layer that names servers by address alone means plain DNS.
    servers = spec.name_servers or [NameServerSpec(addr=address) for address in spec.dns_servers]
    return ResolverStatusSpec(
        dns_servers=spec.dns_servers, search_domains=spec.search_domains, name_servers=servers
    )


class TimeServerStatusController(Reconciler):
    """Writes TimeServerStatus, which timed follows."""

    name = "network.TimeServerSpecController"
    inputs = (Input(kinds.TIME_SERVER_SPEC),)
    outputs = (Output(kinds.TIME_SERVER_STATUS),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Follow the merged spec."""
        async with runtime.track_outputs():
            for resource in await runtime.list(kinds.TIME_SERVER_SPEC):
                if resource.id == TIME_SERVERS_ID and resource.metadata.phase is Phase.RUNNING:
                    status = make_time_server_status(resource.spec)
                    await runtime.modify(
                        kinds.TIME_SERVER_STATUS,
                        TIME_SERVERS_ID,
                        lambda spec, new=status: spec.CopyFrom(new),
                    )


def make_time_server_status(spec: TimeServerSpecSpec) -> TimeServerStatusSpec:
    """The time servers in effect."""
    return TimeServerStatusSpec(ntp_servers=spec.ntp_servers, use_nts=spec.use_nts)
