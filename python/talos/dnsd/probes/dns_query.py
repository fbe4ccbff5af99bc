"""A query of the servers that the node's own programs have, or of another one."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

import trio

from talos.api.probe import probe_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.api.timestamps import make_duration
from talos.dnsd.message import IN, OPT, UDP_SIZE, MalformedError, Query, encode_name
from talos.dnsd.probes.bounds import DurationField
from talos.dnsd.probes.records import TYPES, Record, format_code, read_records
from talos.dnsd.upstream import Server, Upstream, UpstreamError

RESOLV_CONF = "/etc/resolv.conf"
"""The C library's, which also has the host's resolver where that is on."""
MAX_SERVERS = 3
"""How many the C library reads."""
TIMEOUT = DurationField(name="timeout", minimum=0.1, maximum=30.0, default=5.0)
MAX_NAME = 1024
"""Characters of a request's texts."""
_META_TYPES = range(128, 256)
"""Types that are no records': ANY, transfers of zones. RFC 6895 section 3.1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Querier:
    """Queries; ``port`` is another one than the protocol's."""

    resolv_conf: str = RESOLV_CONF
    port: int = 0

    async def run(self, request: pb.DNSQueryRequest) -> pb.DNSQueryReply:
        """The answer of the first server that has one; RpcError.

        One that does not answer is queried again, in turn with the others, until the time is over; one whose
        port is closed, or that answers what is no answer, is not.
        FAILED_PRECONDITION: nothing listens at the last one's port. DEADLINE_EXCEEDED: there was no answer.
        """
        seconds = TIMEOUT.read(request)
        query = make_query(request)
        servers = [parse_server(request.server)] if request.server else await self._read_servers()
        code, reason = Code.DEADLINE_EXCEEDED, "no answer in time"
        with trio.move_on_after(seconds):
            while servers:
                address = servers.pop(0)
                upstream = Upstream(Server(address=address), port=self.port, is_healthy=False)
                code, reason = Code.DEADLINE_EXCEEDED, f"{upstream.server}: no answer in time"
                began = trio.current_time()
                try:
                    reply = await upstream.query(query)
                    records = read_records(reply.data)
                except UpstreamError as error:
                    code = Code.FAILED_PRECONDITION if error.is_refusal else code
                    reason = str(error)
                    if error.is_silence:
                        servers.append(address)
                    continue
                except MalformedError as error:
                    reason = f"{upstream.server}: {error}"
                    continue
                return pb.DNSQueryReply(
                    server=str(upstream.server),
                    round_trip=make_duration(trio.current_time() - began),
                    code=format_code(reply.code),
                    records=map(_make_record, records),
                )
        raise RpcError(code, f"{reason}; try another server with --server")

    async def _read_servers(self) -> list[IPv4Address | IPv6Address]:
        try:
            text = await trio.Path(self.resolv_conf).read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ""
        servers = parse_resolv_conf(text)
        if not servers:
            raise RpcError(
                Code.FAILED_PRECONDITION,
                "the node has no name servers: see `talosctl get resolvers`, or name one with --server",
            )
        return servers


def parse_resolv_conf(text: str) -> list[IPv4Address | IPv6Address]:
    """The servers in their order; what is no address is left out, as by the C library."""
    servers: list[IPv4Address | IPv6Address] = []
    for line in text.splitlines():
        match line.split():
            case ["nameserver", address, *_]:
                try:
                    servers.append(ip_address(address))
                except ValueError:
                    continue
            case _:
                continue
    return servers[:MAX_SERVERS]


def parse_server(text: str) -> IPv4Address | IPv6Address:
    """An address of one machine; RpcError."""
    try:
        address = ip_address(text[:MAX_NAME])
    except ValueError:
        address = None
    if address is None or address.is_multicast or address.is_unspecified:
        raise RpcError(
            Code.INVALID_ARGUMENT, f"server {text[:MAX_NAME]!r} is no address: give one such as 10.96.0.10"
        )
    return address


def make_query(request: pb.DNSQueryRequest) -> Query:
    """The question; RpcError."""
    kind = parse_type(request.type)
    text = request.name[:MAX_NAME]
    try:
        if kind == TYPES["PTR"]:
            text = _reverse(text)
        name = b"\0" if text == "." else encode_name(text)
    except ValueError:
        raise RpcError(
            Code.INVALID_ARGUMENT,
            f"name {text!r} is none: labels of 1 to 63 ASCII characters with dots between, 253 at most",
        ) from None
    return Query(
        id=0,
        name=name,
        type=kind,
        dns_class=IN,
        udp_size=UDP_SIZE,
        has_edns=True,
        wants_dnssec=False,
        checking_disabled=False,
    )


def parse_type(text: str) -> int:
    """The number of a type; RpcError."""
    name = text[:MAX_NAME].upper() or "A"
    number = TYPES.get(name)
    digits = name.removeprefix("TYPE")
    if number is None and digits != name and digits.isascii() and digits.isdigit() and len(digits) <= 5:
        number = int(digits)
    if number is None or not 0 < number < 1 << 16 or number == OPT or number in _META_TYPES:
        raise RpcError(
            Code.INVALID_ARGUMENT,
            f"type {text[:MAX_NAME]!r} is none of records: give one such as AAAA or TYPE65",
        )
    return number


def _reverse(text: str) -> str:
    """The name that an address has in DNS; another text as it is."""
    try:
        return ip_address(text).reverse_pointer
    except ValueError:
        return text


def _make_record(record: Record) -> pb.Record:
    return pb.Record(
        section=pb.Record.Section.Name(record.section),
        name=record.name,
        time_to_live=record.seconds,
        type=record.type,
        data=record.data,
    )
