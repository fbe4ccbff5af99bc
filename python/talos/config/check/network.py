"""Checks of documents about names, routes, rules, time and other network settings."""

import re
from collections.abc import Iterator

from talos.config.check.forms import check_present, is_address
from talos.config.check.note import Check, Note
from talos.config.check.subnets import check_subnet_list
from talos.config.documents.network.blackhole_route import BlackholeRouteConfig
from talos.config.documents.network.hcloud_vip import HCloudVIPConfig
from talos.config.documents.network.hostname import HostnameConfig
from talos.config.documents.network.http_probe import HTTPProbeConfig
from talos.config.documents.network.kube_span import KubeSpanConfig
from talos.config.documents.network.layer2_vip import Layer2VIPConfig
from talos.config.documents.network.network_rule import NetworkRuleConfig
from talos.config.documents.network.resolver import ResolverConfig
from talos.config.documents.network.routing_rule import RoutingRuleConfig
from talos.config.documents.network.static_host import StaticHostConfig
from talos.config.documents.network.tcp_probe import TCPProbeConfig
from talos.config.documents.network.time_sync import TimeSyncConfig
from talos.config.schema import Document
from talos.config.values import Prefix

_HOSTNAME = re.compile(
    r"(?!.{254})[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*"
)
_MIN_KUBESPAN_MTU = 1280  # RFC 8200: what IPv6 needs
_MAX_PRIORITY = 32765
_RESERVED_PRIORITY = 32500
_PRIORITY = re.compile(r"[0-9]{1,10}", re.ASCII)


def _hostname(document: HostnameConfig) -> Iterator[Note]:
    at = Note.at(document, "hostname")
    if document.hostname and document.auto == "stable":
        yield at.find("stands beside auto: stable", hint='set auto: "off" or leave hostname out')
    if not document.hostname and not document.auto:
        yield Note.at(document).find("neither auto nor hostname is set")
    if document.hostname and not _HOSTNAME.fullmatch(document.hostname):
        yield at.find(f'"{document.hostname}" is no host name', hint="letters, digits, - and .")


def _resolver(document: ResolverConfig) -> Iterator[Note]:
    for index, server in enumerate(document.nameservers or ()):
        at = Note.at(document, f"nameservers[{index}]")
        yield from check_present(server.address, at.below("address"))
        encrypted = server.protocol in {"DoT", "DoH"}
        if encrypted and not server.tls_server_name:
            yield at.below("tlsServerName").find("is missing", hint=f"{server.protocol} needs it")
        if not encrypted and server.tls_server_name:
            yield at.below("tlsServerName").find("is for DoT and DoH")
    host_dns = document.host_dns
    if host_dns and not host_dns.enabled:
        for key, value in (
            ("forwardKubeDNSToHost", host_dns.forward_kube_dns_to_host),
            ("resolveMemberNames", host_dns.resolve_member_names),
        ):
            if value:
                yield Note.at(document, f"hostDNS.{key}").find("needs hostDNS.enabled")


def _time_sync(document: TimeSyncConfig) -> Iterator[Note]:
    at = Note.at(document)
    if document.boot_timeout and document.boot_timeout.seconds < 0:
        yield at.below("bootTimeout").find(f'"{document.boot_timeout}" is negative')
    if document.ntp is not None and document.ptp is not None:
        yield at.below("ptp").find("stands beside ntp", hint="keep one")
    if document.ntp and document.ntp.use_nts:
        for index, server in enumerate(document.ntp.servers or ()):
            if is_address(server):
                place = at.below(f"ntp.servers[{index}]")
                yield place.find(f'"{server}" is an address', hint="NTS needs names, certificates have them")


def _probe(document: HTTPProbeConfig | TCPProbeConfig) -> Iterator[Note]:
    at = Note.at(document)
    if isinstance(document, HTTPProbeConfig):
        yield from check_present(document.url, at.below("url"))
    elif not document.endpoint:
        yield at.below("endpoint").find("is missing", hint="host and port")
    for key, span in (("timeout", document.timeout), ("interval", document.interval)):
        if span and span.seconds < 0:
            yield at.below(key).find(f'"{span}" is negative')


def _kubespan(document: KubeSpanConfig) -> Iterator[Note]:
    at, mtu = Note.at(document), document.mtu
    if mtu is not None and mtu < _MIN_KUBESPAN_MTU:
        yield at.below("mtu").find(f"{mtu} is too small", hint=f"at least {_MIN_KUBESPAN_MTU}")
    if document.filters:
        yield from check_subnet_list(document.filters.endpoints, at.below("filters.endpoints"))


def _routing_rule(document: RoutingRuleConfig) -> Iterator[Note]:
    at, name = Note.at(document), document.name
    if name and not (
        _PRIORITY.fullmatch(name) and 1 <= int(name) <= _MAX_PRIORITY and int(name) != _RESERVED_PRIORITY
    ):
        hint = f"a number from 1 to {_MAX_PRIORITY}, not {_RESERVED_PRIORITY}"
        yield at.below("name").find(f'"{name}" is no priority', hint=hint)
    if document.table in {None, "unspec"} and document.action in {None, "unspec", "unicast"}:
        yield at.below("table").find("is missing", hint="or an action other than unicast")
    if document.fw_mask and not document.fw_mark:
        yield at.below("fwMask").find("needs fwMark")
    if document.src and document.dst and document.src.interface.version != document.dst.interface.version:
        yield at.below("dst").find("is of another address family than src")


def _network_rule(document: NetworkRuleConfig) -> Iterator[Note]:
    at = Note.at(document)
    ports = document.port_selector.ports if document.port_selector else None
    yield from check_present(ports, at.below("portSelector.ports"))
    for index, rule in enumerate(document.ingress or ()):
        yield from check_present(rule.subnet, at.below(f"ingress[{index}].subnet"))


def _static_host(document: StaticHostConfig) -> Iterator[Note]:
    yield from _named_address(document)
    yield from check_present(document.hostnames, Note.at(document, "hostnames"))


def _vip(document: Layer2VIPConfig | HCloudVIPConfig) -> Iterator[Note]:
    yield from _named_address(document)
    yield from check_present(document.link, Note.at(document, "link"))
    if isinstance(document, HCloudVIPConfig):
        yield from check_present(document.api_token, Note.at(document, "apiToken"))


def _named_address(document: Document) -> Iterator[Note]:
    name: str = getattr(document, "name", "")
    if name and not is_address(name):
        yield Note.at(document, "name").find(f'"{name}" is no IP address')


def _blackhole_route(document: BlackholeRouteConfig) -> Iterator[Note]:
    try:
        Prefix.parse(document.name or "::/0")
    except ValueError:
        place = Note.at(document, "name")
        yield place.find(f'"{document.name}" is no prefix', hint="such as 10.0.0.0/8")


CHECKS: dict[str, Check] = {
    "BlackholeRouteConfig": _blackhole_route,
    "HCloudVIPConfig": _vip,
    "HTTPProbeConfig": _probe,
    "HostnameConfig": _hostname,
    "KubeSpanConfig": _kubespan,
    "Layer2VIPConfig": _vip,
    "NetworkRuleConfig": _network_rule,
    "ResolverConfig": _resolver,
    "RoutingRuleConfig": _routing_rule,
    "StaticHostConfig": _static_host,
    "TCPProbeConfig": _probe,
    "TimeSyncConfig": _time_sync,
}
