"""The command lines of etcd and of its tool that restores snapshots."""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv6Address, ip_address

from talos.api.common.common_pb2 import NetIP
from talos.api.definitions.etcd_pb2 import SpecSpec
from talos.config.arguments import format_arguments
from talos.etcd.client import PEER_PORT, PORT
from talos.etcd.paths import DATA, SECRETS
from talos.system.errors import UserError

PROGRAM, RESTORE_PROGRAM = "etcd", "etcdutl"
HTTP_PORT = 2383
"""Health and metrics."""


def make_url(address: NetIP | str, port: int) -> str:
    """``https://10.5.0.2:2380``."""
    ip = ip_address(address) if isinstance(address, str) else ip_address(address.ip)
    return f"https://[{ip}]:{port}" if isinstance(ip, IPv6Address) else f"https://{ip}:{port}"


def make_urls(addresses: Iterable[NetIP], port: int) -> list[str]:
    """One URL for each address."""
    return [make_url(address, port) for address in addresses]


def peer_urls(spec: SpecSpec) -> list[str]:
    """Under which the other members reach this one."""
    return make_urls(spec.advertised_addresses, PEER_PORT)


def make_initial_cluster(name: str, urls: Iterable[str]) -> str:
    """A member as ``--initial-cluster`` has it: a pair for each of its URLs."""
    return ",".join(f"{name}={url}" for url in urls)


def make_argv(spec: SpecSpec, *, is_new: bool, initial_cluster: str) -> list[str]:
    """Etcd's command line: what the system decides, and the user's arguments beside it.

    UserError: a user's argument replaces one of the system's.
    """
    own = {
        "name": spec.name,
        "data-dir": DATA,
        "auto-tls": "false",
        "peer-auto-tls": "false",
        "listen-peer-urls": ",".join(make_urls(spec.listen_peer_addresses, PEER_PORT)),
        "listen-client-urls": ",".join(make_urls(spec.listen_client_addresses, PORT)),
        "listen-client-http-urls": ",".join(make_urls(spec.listen_client_addresses, HTTP_PORT)),
        "client-cert-auth": "true",
        "cert-file": f"{SECRETS}/server.crt",
        "key-file": f"{SECRETS}/server.key",
        "trusted-ca-file": f"{SECRETS}/ca.crt",
        "peer-client-cert-auth": "true",
        "peer-cert-file": f"{SECRETS}/peer.crt",
        "peer-key-file": f"{SECRETS}/peer.key",
        "peer-trusted-ca-file": f"{SECRETS}/ca.crt",
        "feature-gates": "InitialCorruptCheck=true,CompactHashCheck=true",
        "watch-progress-notify-interval": "5s",
        "tls-min-version": "TLS1.3",
        "initial-advertise-peer-urls": ",".join(peer_urls(spec)),
        "advertise-client-urls": ",".join(make_urls(spec.advertised_addresses, PORT)),
        "initial-cluster-state": "new" if is_new else "existing",
        "initial-cluster": initial_cluster,
    }
    further = {name: list(values.values) for name, values in spec.extra_args.items()}
    return [PROGRAM, *format_arguments(_merge(own, further))]


def _merge(own: Mapping[str, str], further: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    taken = sorted(own.keys() & further.keys())
    if taken:
        raise UserError(
            "is decided by the system", where=f"cluster.etcd.extraArgs.{taken[0]}", hint="remove the argument"
        )
    return {**{name: [value] for name, value in own.items() if value}, **further}


def make_restore_argv(spec: SpecSpec, snapshot: str, directory: str, *, skip_hash_check: bool) -> list[str]:
    """The command line that makes a new cluster's data directory from a snapshot."""
    arguments = {
        "name": spec.name,
        "data-dir": directory,
        "initial-cluster": make_initial_cluster(spec.name, peer_urls(spec)),
        "initial-advertise-peer-urls": ",".join(peer_urls(spec)),
        "skip-hash-check": "true" if skip_hash_check else "false",
    }
    return [
        RESTORE_PROGRAM,
        "snapshot",
        "restore",
        snapshot,
        *format_arguments({k: [v] for k, v in arguments.items()}),
    ]
