"""Specs that take effect as a status: host name, resolvers, time servers."""

from collections.abc import Callable

from google.protobuf.message import Message

from talos.api.definitions.network_pb2 import (
    HostnameSpecSpec,
    HostnameStatusSpec,
    NameServerSpec,
    ResolverSpecSpec,
    ResolverStatusSpec,
    TimeServerSpecSpec,
    TimeServerStatusSpec,
)
from talos.resource import ids
from talos.resource.controller.controller import (
    Controller,
    ControllerRuntime,
    Input,
    Output,
    Reconciler,
)
from talos.resource.ids import Singleton
from talos.resource.resource import Phase


class SimpleStatusController[Spec: Message, Status: Message](Reconciler):
    """Writes the status of a merged spec."""

    def __init__(
        self, name: str, spec: Singleton[Spec], status: Singleton[Status], make: Callable[[Spec], Status]
    ) -> None:
        # One class, a controller for each kind: each instance has a name of its own.
        self.name = name  # pyright: ignore[reportAttributeAccessIssue]
        self.inputs = (Input(*spec),)
        self.outputs = (Output(status[0]),)
        self._spec = spec
        self._status = status
        self._make = make

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Follow the merged spec."""
        async with runtime.track_outputs():
            resource = await runtime.get_or_none(*self._spec)
            if resource is not None and resource.metadata.phase is Phase.RUNNING:
                await runtime.put(*self._status, self._make(resource.spec))


def make_simple_status_controllers() -> list[Controller]:
    """One for each kind. machined sets the kernel's name and writes the files; timed queries the servers."""
    return [
        SimpleStatusController(
            "network.HostnameSpecController", ids.HOSTNAME_SPEC, ids.HOSTNAME_STATUS, make_hostname_status
        ),
        SimpleStatusController(
            "network.ResolverSpecController", ids.RESOLVER_SPEC, ids.RESOLVER_STATUS, make_resolver_status
        ),
        SimpleStatusController(
            "network.TimeServerSpecController",
            ids.TIME_SERVER_SPEC,
            ids.TIME_SERVER_STATUS,
            make_time_server_status,
        ),
    ]


def make_hostname_status(spec: HostnameSpecSpec) -> HostnameStatusSpec:
    """The host name in effect."""
    return HostnameStatusSpec(hostname=spec.hostname, domainname=spec.domainname)


def make_resolver_status(spec: ResolverSpecSpec) -> ResolverStatusSpec:
    """The resolvers in effect."""
    # A layer that names servers by address alone means plain DNS.
    servers = spec.name_servers or [NameServerSpec(addr=address) for address in spec.dns_servers]
    return ResolverStatusSpec(
        dns_servers=spec.dns_servers, search_domains=spec.search_domains, name_servers=servers
    )


def make_time_server_status(spec: TimeServerSpecSpec) -> TimeServerStatusSpec:
    """The time servers in effect."""
    return TimeServerStatusSpec(ntp_servers=spec.ntp_servers, use_nts=spec.use_nts)
