"""What takes bytes from outside either accepts them or refuses them in the one way it may, and soon.

The same inputs every time, three thousand for each parser. FUZZ_SECONDS gives each one so long with new
inputs instead (``make soak``); what fails is shown as a literal to be added to its seeds.
"""

import asyncio
import struct
from collections.abc import Mapping
from pathlib import Path

import h2.config
import h2.connection
import pytest
from google.protobuf.message import DecodeError
from tests.unit.rpc.port.world import World

from talos.api.cosi import resource_pb2
from talos.api.discovery.affiliate_pb2 import Affiliate, Endpoint
from talos.api.discovery.cluster_pb2 import WatchResponse
from talos.api.machine import machine_pb2
from talos.api.rpc import RpcError
from talos.apid.wire import MergeError, mark_frame, mark_reply
from talos.clusterd.discovery.cipher import PayloadCipher
from talos.clusterd.discovery.known import KnownAffiliates
from talos.clusterd.discovery.payload import parse_payload
from talos.config.cel.compile import compile_expression
from talos.config.cel.environments import DISK, LINK
from talos.config.change.patch import apply_patches, parse_patch
from talos.config.read.loader import load
from talos.config.talosconfig.yaml import parse_yaml
from talos.config.udev_rules import parse_rules
from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.network_config import read_network_config
from talos.machined.platform.clouds.nocloud import read_meta_data
from talos.machined.platform.network import parse_network
from talos.networkd.dhcp.message import parse_reply as parse_dhcp
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import parse_certificates
from talos.pki.keys import parse_key
from talos.resource.pattern import Pattern
from talos.resource.pattern_syntax import PatternError
from talos.resource.remote.requests import parse_query
from talos.rpc.http2.frames import ProtocolError
from talos.rpc.http2.rules import check_request
from talos.rpc.port import request
from talos.rpc.protocol import parse_metadata, parse_timeout
from talos.system.acpi import parse_events
from talos.system.kmsg import parse_record
from talos.system.logging import Log
from talos.system.smbios import parse_structures
from talos.timed.ntp.packet import is_reply as is_ntp
from talos.timed.ntp.packet import parse_reply as parse_ntp

from .trial import Parser, check_parser

DATA = Path(__file__).parents[2] / "data" / "fuzz"
DOCUMENTS = Path(__file__).parents[3] / "docs" / "examples"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _session() -> bytes:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    connection.initiate_connection()
    for stream in (1, 3):
        headers = [(":method", "POST"), (":path", "/a.B/C"), (":scheme", "https"), (":authority", "a")]
        connection.send_headers(stream, [*headers, ("content-type", "application/grpc"), ("x-bin", "YQ")])
        connection.send_data(stream, b"\0\0\0\0\2ab", end_stream=stream == 3)
    connection.ping(b"12345678")
    connection.reset_stream(1)
    return bytes(connection.data_to_send())


def _receive(data: bytes) -> None:
    """What comes on a port's connection, after the TLS handshake; it is refused by the connection's end."""

    async def run() -> None:
        world = World(4096)
        try:
            world.feed(data)
        finally:
            world.end()
            await asyncio.sleep(0)

    asyncio.run(run())


def _query(data: bytes) -> object:
    term = resource_pb2.LabelTerm.FromString(data)
    return parse_query([resource_pb2.LabelQuery(terms=[term])], resource_pb2.IDQuery(regexp=term.key))


def _pairs(data: bytes) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, _, value in (line.partition(":") for line in _text(data).split("\n")))


def _headers(data: bytes) -> tuple[tuple[str, str], ...]:
    lines = data.decode("latin-1").split("\n")
    return tuple((name, value) for name, _, value in (line.partition("=") for line in lines))


def _messages(tag: str) -> bytes:
    reply = machine_pb2.VersionResponse()
    for _ in range(2):
        reply.messages.add().version.tag = tag
    return reply.SerializeToString()


def _data(name: str) -> bytes:
    return (DATA / name).read_bytes()


def _documents() -> list[bytes]:
    return [path.read_bytes() for path in sorted(DOCUMENTS.glob("*.yaml"))]


HARDWARE = bytes(6)
DHCP = (
    b"\2\1\6\0\0\0\0\7" + bytes(20) + HARDWARE + bytes(202) + b"\x63\x82\x53\x63"
    b"\x35\1\5\1\4\xff\xff\xff\0\x33\4\0\0\x0e\x10\x36\4\x0a\0\0\1\3\4\x0a\0\0\1\x0c\4node\xff"
)
SEALER = PayloadCipher(bytes(range(32)))


def _payload() -> Affiliate:
    payload = Affiliate(node_id="a", hostname="a", nodename="a", machine_type="worker", addresses=[bytes(4)])
    payload.kubespan.public_key = "key"
    payload.kubespan.additional_addresses.add(ip=bytes([10, 0, 0, 0]), bits=8)
    payload.control_plane.api_server_port = 6443
    return payload


def _affiliates() -> bytes:
    endpoint = SEALER.seal_endpoint(Endpoint(ip=bytes([10, 0, 0, 1]), port=51820))
    response = WatchResponse()
    response.affiliates.add(id="a", data=SEALER.seal(_payload()), endpoints=[endpoint])
    return response.SerializeToString()


AUTHORITY = CertificateAuthority.from_pem(_data("authority.crt"), _data("authority.key"))
PARSERS: Mapping[str, Parser] = {
    "config": Parser(
        parse=load,
        seeds=[*_documents(), b"a: &a [1]\nb: [*a, *a]\n", b"%YAML 1.2\n---\nversion: v1alpha1\n"],
        examples=1000,
    ),
    "patch": Parser(
        parse=lambda data: apply_patches("version: v1alpha1\nmachine: {type: worker}\n", [parse_patch(data)]),
        seeds=[
            b"machine:\n  type: worker\n  certSANs: [a]\n",
            b'[{"op": "add", "path": "/machine/certSANs/-", "value": "a"}]',
            b"machine:\n  install: {$patch: delete}\n",
        ],
    ),
    "talosconfig": Parser(
        parse=lambda data: parse_yaml(data, "file"),
        seeds=[b"context: a\ncontexts:\n  a:\n    endpoints: [10.5.0.2]\n    ca: YQ==\n    crt: YQ==\n"],
    ),
    "network of a container": Parser(
        parse=lambda data: parse_network(_text(data), "node", platform="container"),
        seeds=[b"hostname: a\nlinks:\n- name: eth0\n  addresses: [10.0.0.2/24]\n  gateway: 10.0.0.1\n"],
    ),
    "meta-data of nocloud": Parser(
        parse=read_meta_data,
        seeds=[b"local-hostname: a\ninstance-id: b\n", b"hostname: &a [x]\nx: [*a, *a]\n"],
    ),
    "network-config of nocloud": Parser(
        parse=lambda data: read_network_config(data, NetworkBuilder({})),
        seeds=[
            b"version: 1\nconfig: [{type: physical, name: a, subnets: [{type: static, address: 10.0.0.5}]}]",
            b"version: 2\nethernets: {a: {dhcp4: true, routes: [{to: 10.0.0.0/8, via: 10.0.0.1}]}}\n",
        ],
        examples=1000,
    ),
    "expression, disk": Parser(
        parse=lambda data: compile_expression(_text(data), DISK, where="x"),
        seeds=[
            b"disk.size > 10u * GiB && !disk.readonly",
            b'disk.model.matches("a.*") || disk.transport in ["nvme"]',
        ],
    ),
    "expression, link": Parser(
        parse=lambda data: compile_expression(_text(data), LINK, where="x"),
        seeds=[
            b'mac(link.permanent_addr) == "00:1a:2b:3c:4d:5e"',
            b"[1, 2].exists(x, x == 1) ? true : false",
        ],
    ),
    "udev rules": Parser(
        parse=lambda data: parse_rules([_text(data)]),
        seeds=[b'SUBSYSTEM=="block", KERNEL=="sd*", ATTR{size}!="0", SYMLINK+="disk/$kernel"\n'],
    ),
    "certificates": Parser(
        parse=parse_certificates, seeds=[_data("authority.crt"), _data("authority.crt") * 2]
    ),
    "key": Parser(parse=parse_key, seeds=[_data("authority.key"), _data("ed25519.key")]),
    "certificate request": Parser(
        parse=lambda data: AUTHORITY.sign(data, organizations=()), seeds=[_data("request.csr")]
    ),
    "discovered affiliates": Parser(
        parse=lambda data: KnownAffiliates(SEALER, "own", Log(write=lambda _: None)).take_snapshot(
            WatchResponse.FromString(data)
        ),
        seeds=[_affiliates()],
        refusals=(DecodeError,),
    ),
    "discovered payload": Parser(
        parse=lambda data: parse_payload(Affiliate.FromString(data), [Endpoint.FromString(data)]),
        seeds=[_payload().SerializeToString()],
        refusals=(DecodeError,),
    ),
    "pattern": Parser(
        parse=lambda data: Pattern(_text(data)).search("eth0/10.5.0.2/24" * 4),
        seeds=[
            rb"^(eth|en)[a-z0-9]+/\d{1,3}(?:\.\d{1,3}){3}/24$",
            rb"(?i)a+?[^b-d\w]*|\bx\B",
            b"(a|b)*(a?){30}a{30}",
        ],
        refusals=(PatternError,),
    ),
    "query": Parser(
        parse=_query,
        seeds=[
            resource_pb2.LabelTerm(
                key="a.*", value=["b"], op=resource_pb2.LabelTerm.Operation.IN
            ).SerializeToString()
        ],
        refusals=(RpcError, DecodeError),
    ),
    "reply of a node": Parser(
        parse=lambda data: mark_reply(data, "node"), seeds=[_messages("a"), b""], refusals=(MergeError,)
    ),
    "frame of a node": Parser(
        parse=lambda data: mark_frame(data, "node"),
        seeds=[_messages("a"), b"\x12\1a"],
        refusals=(MergeError,),
    ),
    "metadata": Parser(
        parse=lambda data: parse_metadata(_pairs(data)),
        seeds=[b"node:10.5.0.2\nx-bin:YQ==\ngrpc-timeout:1S\nuser-agent:x"],
        refusals=(RpcError,),
    ),
    "metadata of a client": Parser(
        parse=lambda data: (
            request.parse_authority(dict(_pairs(data))),
            request.parse_request_metadata(_pairs(data)),
        ),
        seeds=[b"node:10.5.0.2\nx-bin:YQ==\nz:z", b"nodes:a\nnodes:b"],
        refusals=(RpcError,),
    ),
    "headers of a request": Parser(
        parse=lambda data: check_request(_headers(data)),
        seeds=[b":method=POST\n:scheme=https\n:path=/a.B/C\n:authority=a\nte=trailers\nx=y"],
        refusals=(ProtocolError,),
    ),
    "timeout": Parser(
        parse=lambda data: parse_timeout(_text(data)),
        seeds=[b"20S", b"99999999H"],
        refusals=(RpcError,),
    ),
    "frames": Parser(
        parse=_receive,
        seeds=[_session(), PREFACE],
    ),
    "structures of SMBIOS": Parser(
        parse=lambda data: [(one.text(4), one.number(6, 8)) for one in parse_structures(data)],
        seeds=[b"\x04\x08\x00\x00\x01\x02ab" + b"CPU 0\0Vendor\0\0" + b"\x7f\x04\x01\x00\0\0"],
        refusals=(),
    ),
    "events of ACPI": Parser(
        parse=parse_events,
        seeds=[
            struct.pack("=IHHIIBBHHH20s15sxII", 84, 24, 0, 0, 0, 1, 1, 0, 48, 1, b"button/power", b"b", 1, 1)
        ],
        refusals=(),
    ),
    "record of the kernel's log": Parser(
        parse=parse_record,
        seeds=[b'4,1,2,-;Command line: talos.config=https://a:b@c/?d=${uuid}&e "talos.config.inline=f"'],
        refusals=(),
    ),
    "DHCP": Parser(
        parse=lambda data: parse_dhcp(data, transaction=7, hardware_address=HARDWARE),
        seeds=[DHCP],
        refusals=(ValueError,),
    ),
    "NTP": Parser(
        parse=lambda data: (
            parse_ntp(data, "server", sent=0.0, received=1.0) if is_ntp(data, bytes(8)) else None
        ),
        seeds=[b"\x24\2\0\0" + bytes(44)],
        refusals=(RpcError,),
    ),
}


@pytest.mark.parametrize("name", PARSERS)
def test_parser(name: str) -> None:
    check_parser(PARSERS[name])
