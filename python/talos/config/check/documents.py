"""Checks of single documents that their declaration can't express."""

import base64
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from talos.config.check.note import Note
from talos.config.check.udev import check_udev_rules
from talos.config.schema import Document
from talos.config.values import Duration, Prefix

type Check = Callable[[Any], Iterator[Note]]

_HOSTNAME = re.compile(
    r"(?!.{254})[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*"
)
_LABEL_LENGTH = 63  # RFC 1035
_WIREGUARD_KEY_BYTES = 32
_SHORTEST_WATCHDOG = Duration("10s")
_SHORTEST_SCRUB = Duration("10s")
_LARGEST_VLAN = 4094  # IEEE 802.1Q: 0 and 4095 are reserved
_SYSTEM_VOLUMES = ("STATE", "EPHEMERAL", "IMAGECACHE", "ETCD", "CRI", "KUBELET", "LOG")


def check_document(document: Document) -> Iterator[Note]:
    """The checks of the document's kind."""
    if document.named and not getattr(document, "name", ""):
        yield Note("is empty", document, "name")
    check = _CHECKS.get(document.kind)
    if check is not None:
        yield from check(document)


def _hostname(document: Any) -> Iterator[Note]:
    if document.hostname and document.auto == "stable":
        yield Note(
            "stands beside auto: stable", document, "hostname", hint='set auto: "off" or leave hostname out'
        )
    if not document.hostname and not document.auto:
        yield Note("neither auto nor hostname is set", document)
    if document.hostname and not (
        _HOSTNAME.fullmatch(document.hostname) and len(document.hostname.split(".")[0]) <= _LABEL_LENGTH
    ):
        yield Note(
            f'"{document.hostname}" is no host name', document, "hostname", hint="letters, digits, - and ."
        )


def _network(document: Any) -> Iterator[Note]:
    for key, prefixes in (("podSubnets", document.pod_subnets), ("serviceSubnets", document.service_subnets)):
        if not prefixes:
            yield Note("is empty", document, key)


def _watchdog(document: Any) -> Iterator[Note]:
    if not document.device:
        yield Note("is missing", document, "device", hint="such as /dev/watchdog0")
    yield from _at_least(document, "timeout", document.timeout, _SHORTEST_WATCHDOG)


def _scrub(document: Any) -> Iterator[Note]:
    yield from _at_least(document, "interval", document.interval, _SHORTEST_SCRUB)


def _trim(document: Any) -> Iterator[Note]:
    if document.interval and document.interval.seconds <= 0:
        yield Note(f'"{document.interval}" is not positive', document, "interval")


def _udev(document: Any) -> Iterator[Note]:
    yield from check_udev_rules(document.rules, Note.at(document, "rules"))


def _vlan(document: Any) -> Iterator[Note]:
    if not 1 <= document.vlan_id <= _LARGEST_VLAN:
        yield Note(
            f"{document.vlan_id} is out of range", document, "vlanID", hint=f"from 1 to {_LARGEST_VLAN}"
        )


def _wireguard(document: Any) -> Iterator[Note]:
    yield from _wireguard_key(document, "privateKey", document.private_key)
    for index, peer in enumerate(document.peers or ()):
        yield from _wireguard_key(document, f"peers[{index}].publicKey", peer.public_key)
        if peer.preshared_key:
            yield from _wireguard_key(document, f"peers[{index}].presharedKey", peer.preshared_key)


def _wireguard_key(document: Document, path: str, key: str) -> Iterator[Note]:
    try:
        valid = len(base64.b64decode(key, validate=True)) == _WIREGUARD_KEY_BYTES
    except ValueError:
        valid = False
    if not valid:
        yield Note("is no WireGuard key", document, path, hint=f"base64 of {_WIREGUARD_KEY_BYTES} bytes")


def _links(document: Any) -> Iterator[Note]:
    if not document.links:
        yield Note("is empty", document, "links")
    if document.name in document.links:
        yield Note("contains the link itself", document, "links")


def _named_address(document: Any) -> Iterator[Note]:
    try:
        ipaddress.ip_address(document.name)
    except ValueError:
        yield Note(f'"{document.name}" is no IP address', document, "name")


def _named_prefix(document: Any) -> Iterator[Note]:
    try:
        Prefix.parse(document.name)
    except ValueError:
        yield Note(f'"{document.name}" is no prefix', document, "name", hint="such as 10.0.0.0/8")


def _volume(document: Any) -> Iterator[Note]:
    if document.name not in _SYSTEM_VOLUMES:
        yield Note(
            f'"{document.name}" is no system volume',
            document,
            "name",
            hint=f"one of: {', '.join(_SYSTEM_VOLUMES)}; for others use UserVolumeConfig",
        )
    yield from _sizes(document)


def _sizes(document: Any) -> Iterator[Note]:
    provisioning = document.provisioning
    if not provisioning or not provisioning.min_size or not provisioning.max_size:
        return
    largest = str(provisioning.max_size)
    if (
        "%" not in largest
        and not largest.startswith("-")
        and provisioning.max_size.bytes < provisioning.min_size.bytes
    ):
        yield Note("is smaller than minSize", document, "provisioning.maxSize")


def _authorizer(document: Any) -> Iterator[Note]:
    if not document.type:
        yield Note("is missing", document, "type", hint="Node, RBAC or Webhook")
    if document.type == "Webhook" and not document.webhook:
        yield Note("is missing", document, "webhook")


def _at_least(document: Document, path: str, value: Duration | None, shortest: Duration) -> Iterator[Note]:
    if value and value.seconds < shortest.seconds:
        yield Note(f'"{value}" is too short', document, path, hint=f"at least {shortest}")


_CHECKS: Mapping[str, Check] = {
    "BlackholeRouteConfig": _named_prefix,
    "BondConfig": _links,
    "FilesystemScrubConfig": _scrub,
    "FilesystemTrimConfig": _trim,
    "HCloudVIPConfig": _named_address,
    "HostnameConfig": _hostname,
    "KubeAuthorizerConfig": _authorizer,
    "KubeNetworkConfig": _network,
    "Layer2VIPConfig": _named_address,
    "RawVolumeConfig": _sizes,
    "StaticHostConfig": _named_address,
    "SwapVolumeConfig": _sizes,
    "UdevRulesConfig": _udev,
    "UserVolumeConfig": _sizes,
    "VLANConfig": _vlan,
    "VRFConfig": _links,
    "VolumeConfig": _volume,
    "WatchdogTimerConfig": _watchdog,
    "WireguardConfig": _wireguard,
}
