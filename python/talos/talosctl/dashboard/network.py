"""The page with the network, where a machine in maintenance mode can be given one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Button, Input, Label, Select, Static

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.network_pb2 import LinkStatusSpec
from talos.api.machine.machine_pb2 import ApplyConfigurationRequest
from talos.api.rpc import RpcError
from talos.client.failure import describe
from talos.client.session import open_session
from talos.client.target import Target
from talos.config.read.loader import dump_plain, load
from talos.resource import ids, kinds
from talos.system.errors import UserError
from talos.talosctl.client.change import send_config
from talos.talosctl.dashboard.feed import NodeView
from talos.talosctl.dashboard.summary import UNKNOWN, clean, format_address, format_prefix, join

DHCP, STATIC = "dhcp", "static"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What the reader entered; lists are separated by commas or spaces."""

    hostname: str = ""
    link: str = ""
    mode: str = DHCP
    addresses: str = ""
    gateway: str = ""
    resolvers: str = ""
    time_servers: str = ""


def make_documents(form: Form) -> str:
    """The documents of a machine config that a form stands for, checked as those of a file.

    UserError: a value can't be used.
    """
    documents: list[Mapping[str, Any]] = []

    def add(kind: str, **settings: object) -> None:
        documents.append({"apiVersion": "v1alpha1", "kind": kind, **settings})

    if form.hostname.strip():
        add("HostnameConfig", hostname=form.hostname.strip())
    if form.link:
        add("LinkConfig", name=form.link, up=True, **(_static(form) if form.mode == STATIC else {}))
        if form.mode == DHCP:
            add("DHCPv4Config", name=form.link)
    if resolvers := _split(form.resolvers):
        add("ResolverConfig", nameservers=[{"address": address} for address in resolvers])
    if servers := _split(form.time_servers):
        add("TimeSyncConfig", ntp={"servers": servers})
    if not documents:
        raise UserError("nothing is entered", hint="choose a link, or enter a name or servers")
    text = dump_plain(documents)
    load(text, source="form")
    return text


def _static(form: Form) -> Mapping[str, object]:
    addresses = _split(form.addresses)
    if not addresses:
        raise UserError("no address is entered", hint="such as 10.0.0.2/24, or choose DHCP")
    settings: dict[str, object] = {"addresses": [{"address": address} for address in addresses]}
    if form.gateway.strip():
        settings["routes"] = [{"gateway": form.gateway.strip()}]
    return settings


def _split(text: str) -> list[str]:
    return text.replace(",", " ").split()


class NetworkPage(VerticalScroll):
    """Links, addresses, routes and servers; in maintenance mode, a form below."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target
        self._node = ""
        self._state = Static(classes="box")
        self._link = Select[str]([], prompt="link", compact=True)
        self._mode = Select[str](
            [("DHCP", DHCP), ("static", STATIC)], value=DHCP, allow_blank=False, compact=True
        )
        self._form = Vertical(
            Label("Network of this machine until it has its config", classes="heading"),
            Input(placeholder="host name", id="hostname", compact=True),
            self._link,
            self._mode,
            Input(
                placeholder="addresses, such as 10.0.0.2/24 fd00::2/64 (static)", id="addresses", compact=True
            ),
            Input(placeholder="gateway (static)", id="gateway", compact=True),
            Input(placeholder="DNS servers", id="resolvers", compact=True),
            Input(placeholder="time servers", id="time-servers", compact=True),
            Button("Apply", id="apply", compact=True),
            id="form",
        )
        self._answer = Static()
        self._links: list[str] = []

    def compose(self) -> ComposeResult:
        """The state over the form."""
        yield self._state
        yield self._form
        yield self._answer

    def show(self, view: NodeView) -> None:
        """Draw what is known of a node."""
        if view.node != self._node:
            self._node = view.node
            self._answer.update("")
        self._state.update(_make_table(view))
        status = view.one(ids.MACHINE_STATUS)
        self._form.display = bool(status and status.stage == enums.MACHINE_STAGE_MAINTENANCE)
        links = [
            name
            for name, link in view.all(kinds.LINK_STATUS).items()
            if link.type == enums.LINK_ETHER and not link.kind
        ]
        if self._form.display and links != self._links:
            self._links = links
            self._link.set_options([(Text(clean(name)), name) for name in links])

    @on(Button.Pressed, "#apply")
    def apply(self, event: Button.Pressed) -> None:
        """Send what is entered."""
        event.stop()
        link = self._link.value
        form = Form(
            hostname=self._text("hostname"),
            link=link if isinstance(link, str) else "",
            mode=str(self._mode.value),
            addresses=self._text("addresses"),
            gateway=self._text("gateway"),
            resolvers=self._text("resolvers"),
            time_servers=self._text("time-servers"),
        )
        try:
            text = make_documents(form)
        except UserError as error:
            self._answer.update(Text(clean(str(error)), style="red"))
            return
        self._answer.update("sending…")
        self.run_worker(self._send(self._node, text), exclusive=True)

    def _text(self, name: str) -> str:
        return self.query_one(f"#{name}", Input).value

    async def _send(self, node: str, text: str) -> None:
        request = ApplyConfigurationRequest(data=text.encode(), mode=ApplyConfigurationRequest.AUTO)
        try:
            async with open_session(self._target) as session:
                results = await send_config(session, node, request)
        except (RpcError, UserError) as error:
            self._answer.update(Text(clean(describe(error, self._target)), style="red"))
            return
        lines = [line for result in results for line in (*result.warnings, result.mode_details)]
        self._answer.update(Text(clean("\n".join(filter(None, lines))) or "applied", style="green"))


def _make_table(view: NodeView) -> Table:
    table = Table.grid(padding=(0, 2))
    resolvers, clocks = view.one(ids.RESOLVER_STATUS), view.one(ids.TIME_SERVER_STATUS)
    addresses = view.one(ids.NODE_ADDRESS_CURRENT)
    _add(table, "ADDRESSES", [format_prefix(prefix) for prefix in addresses.addresses] if addresses else ())
    _add(
        table,
        "LINKS",
        [
            f"{name:<16} {'up' if link.link_state else 'down':<5} mtu {link.mtu:<6} {_kind(link)}"
            for name, link in view.all(kinds.LINK_STATUS).items()
        ],
    )
    _add(
        table,
        "ROUTES",
        [
            f"{format_prefix(route.destination) if route.destination.ip else 'default'}"
            f" via {format_address(route.gateway.ip)} dev {route.out_link_name}"
            for route in view.all(kinds.ROUTE_STATUS).values()
            if route.gateway.ip
        ],
    )
    _add(table, "DNS", [join(format_address(one.ip) for one in resolvers.dns_servers)] if resolvers else ())
    _add(table, "NTP", [join(clocks.ntp_servers)] if clocks else ())
    return table


def _kind(link: LinkStatusSpec) -> str:
    if link.kind:
        return link.kind
    name = enums.NethelpersLinkType.Name(link.type).removeprefix("LINK_").lower()
    return "physical" if link.type == enums.LINK_ETHER else name


def _add(table: Table, label: str, values: Sequence[str]) -> None:
    text = "\n".join(clean(value) for value in values) or UNKNOWN
    table.add_row(Text(label, style="bold"), Text(text))
