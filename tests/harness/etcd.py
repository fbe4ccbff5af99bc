"""A client of a node's etcd: keys that a test writes and reads, with the certificate on the node."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import grpc
from google.protobuf.message import Message
from tests.harness.cluster import Cluster

from talos.api.etcd import rpc_pb2 as pb
from talos.provision.cluster import NodeInfo

SECRETS = "system/secrets/etcd"
TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Keys:
    """Calls to one member; a failure is an AssertionError, so that a test may wait for a success."""

    channel: grpc.Channel

    def put(self, key: str, value: str) -> None:
        """Write a key; it is acknowledged by the quorum."""
        self._call("KV/Put", pb.PutRequest(key=key.encode(), value=value.encode()), pb.PutResponse)

    def get(self, key: str) -> str:
        """Read a key through the quorum; empty when there is none."""
        found = self._call("KV/Range", pb.RangeRequest(key=key.encode()), pb.RangeResponse)
        return found.kvs[0].value.decode() if found.kvs else ""

    def _call[R: Message](self, method: str, request: Message, reply: type[R]) -> R:
        stub = cast("Any", self.channel).unary_unary(f"/etcdserverpb.{method}")
        try:
            return reply.FromString(stub(request.SerializeToString(), timeout=TIMEOUT))
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
def open_keys(cluster: Cluster, node: NodeInfo) -> Generator[Keys]:
    """A client of one node's member."""
    folder = cluster.root(node) / SECRETS
    credentials = grpc.ssl_channel_credentials(
        root_certificates=(folder / "ca.crt").read_bytes(),
        private_key=(folder / "admin.key").read_bytes(),
        certificate_chain=(folder / "admin.crt").read_bytes(),
    )
    with grpc.secure_channel(f"{node.address}:2379", credentials) as channel:
        yield Keys(channel)
