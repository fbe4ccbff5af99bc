"""A client of a node's etcd: keys that a test writes and reads, with the certificate on the node."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import grpc
from google.protobuf.message import Message
from tests.harness.cluster import Cluster, eventually
from tests.harness.credentials import secrets_of

from talos.api.etcd import rpc_pb2 as pb
from talos.api.internal.membership_pb2 import UpgradeLock
from talos.pki.authority import CertificateAuthority, Usage
from talos.process.daemons import CLUSTERD
from talos.provision.cluster import NodeInfo

TIMEOUT = 10.0
"""Seconds of one call."""
RECONNECT_MILLISECONDS = 500
"""At most between two attempts to reach a member that is gone; gRPC's own limit is two minutes."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Calls to one member; a failure is an AssertionError, so that a test may wait for a success."""

    channel: grpc.Channel
    timeout: float = TIMEOUT

    def put(self, key: str, value: str) -> pb.ResponseHeader:
        """Write a key; it is acknowledged by the quorum."""
        request = pb.PutRequest(key=key.encode(), value=value.encode())
        return self._call("KV/Put", request, pb.PutResponse).header

    def get(self, key: str) -> str:
        """Read a key through the quorum; empty when there is none."""
        return self.read(key)[0]

    def read_value(self, key: str) -> bytes:
        """The bytes of a key; empty when there is none."""
        found = self._call("KV/Range", pb.RangeRequest(key=key.encode()), pb.RangeResponse)
        return found.kvs[0].value if found.kvs else b""

    def read(self, key: str) -> tuple[str, pb.ResponseHeader]:
        """The same with the header, which has the cluster's id and its revision."""
        found = self._call("KV/Range", pb.RangeRequest(key=key.encode()), pb.RangeResponse)
        return found.kvs[0].value.decode() if found.kvs else "", found.header

    def _call[R: Message](self, method: str, request: Message, reply: type[R]) -> R:
        stub = cast("Any", self.channel).unary_unary(f"/etcdserverpb.{method}")
        try:
            return reply.FromString(stub(request.SerializeToString(), timeout=self.timeout))
        except grpc.RpcError as error:
            raise AssertionError(f"etcd {method}: {error}") from None


def find_etcd(node: NodeInfo) -> int:
    """The pid of a node's etcd on this machine; it shares the node's network, not its processes."""
    network = Path(f"/proc/{node.pid}/ns/net").readlink()
    for entry in Path("/proc").iterdir():
        try:
            is_etcd = entry.name.isdigit() and (entry / "comm").read_text().strip() == "etcd"
            if is_etcd and (entry / "ns/net").readlink() == network:
                return int(entry.name)
        except OSError:
            continue
    raise AssertionError(f"{node.name} runs no etcd")


@contextmanager
def open_keys(cluster: Cluster, node: NodeInfo, *, timeout: float = TIMEOUT) -> Generator[Keys]:
    """A client of one node's member, which may be down: the certificate is made of the cluster's secrets."""
    etcd = secrets_of(cluster).etcd
    authority = CertificateAuthority.from_pem(etcd.crt, etcd.key)
    # The clock of an emulated machine may be behind.
    begin = datetime.now(UTC) - timedelta(hours=1)
    client = authority.issue(common_name="talos", usages=Usage.CLIENT, not_before=begin)
    credentials = grpc.ssl_channel_credentials(authority.crt, client.key, client.crt)
    # A write that gRPC sends twice would be a lie about when it began and ended.
    options = [("grpc.max_reconnect_backoff_ms", RECONNECT_MILLISECONDS), ("grpc.enable_retries", 0)]
    with grpc.secure_channel(f"{node.address}:2379", credentials, options) as channel:
        yield Keys(channel, timeout)


def check_upgrade(cluster: Cluster, node: NodeInfo) -> str:
    """Why a node may not be upgraded now, by PID 1's check; empty when it may, and has the lock then."""
    return _call_membership(cluster, node, "CheckUpgrade")


def take_upgrade_lock(cluster: Cluster, node: NodeInfo) -> None:
    """Have a node take the lock of upgrades, once every member is healthy and no other node has it."""

    def is_taken() -> None:
        assert check_upgrade(cluster, node) == ""

    eventually(f"{node.name} may be upgraded", is_taken)


def end_upgrade(cluster: Cluster, node: NodeInfo) -> None:
    """Have a node give back what it took in :func:`check_upgrade`."""
    assert _call_membership(cluster, node, "EndUpgrade") == ""


def end_earlier_upgrades(cluster: Cluster, node: NodeInfo) -> None:
    """Have a node give back what it took otherwise."""
    assert _call_membership(cluster, node, "EndEarlierUpgrades") == ""


def _call_membership(cluster: Cluster, node: NodeInfo, method: str) -> str:
    socket = cluster.root(node) / CLUSTERD.socket.removeprefix("/")
    request = UpgradeLock(lease=int(node.address))  # other than those that nodes choose, which are long
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        call = cast("Any", channel).unary_unary(f"/talos.internal.Membership/{method}")
        try:
            call(request.SerializeToString(), timeout=6 * TIMEOUT)
        except grpc.RpcError as error:
            return str(cast("Any", error).details())
    return ""
