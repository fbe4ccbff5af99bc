"""The node's identity in KubeSpan: keys kept in STATE, and the address that follows from cluster and card."""

import hashlib
from dataclasses import dataclass
from ipaddress import IPv6Interface, IPv6Network
from pathlib import Path
from typing import Any

import yaml

from talos.machined.node.identity import keep_file
from talos.pki.wireguard import make_private_key, make_public_key

FILE = "kubespan-identity.yaml"
SUBNET_BITS = 64
_ADDRESS_BYTES = 16
_UNIQUE_LOCAL = 0xFD  # RFC 4193
_PURPOSE_PLACE, _KUBESPAN = 7, 0x02
_MAC_BYTES, _EUI_BYTES = 6, 8
_FLIPPED_BIT = 0x02
"""Of an EUI-64 in an address, RFC 4291 appendix A: universal or local."""


@dataclass(frozen=True, slots=True)
class Keys:
    """In base64."""

    private: str
    public: str


def make_subnet(cluster_id: str) -> IPv6Network:
    """The network of a cluster's nodes, which follows from the cluster's id."""
    packed = bytearray(hashlib.sha256(cluster_id.encode()).digest()[-_ADDRESS_BYTES:])
    packed[0], packed[_PURPOSE_PLACE] = _UNIQUE_LOCAL, _KUBESPAN
    return IPv6Network((bytes(packed), SUBNET_BITS), strict=False)


def make_address(subnet: IPv6Network, hardware_address: bytes) -> IPv6Interface:
    """The node's address: EUI-64 of a card. ValueError when it has no such address."""
    if len(hardware_address) == _MAC_BYTES:
        host = bytearray(hardware_address[:3] + b"\xff\xfe" + hardware_address[3:])
        host[0] ^= _FLIPPED_BIT
    elif len(hardware_address) == _EUI_BYTES:
        host = bytearray(hardware_address)
    else:
        raise ValueError(f"a hardware address has 6 or 8 bytes, not {len(hardware_address)}")
    return IPv6Interface((subnet.network_address.packed[:_EUI_BYTES] + bytes(host), 128))


def keep_keys(folder: Path) -> Keys:
    """The keys in STATE, new ones the first time.

    OSError when STATE fails or is full. ValueError when what is there are no keys: they are not replaced, as
    the other nodes identify the node by them.
    """
    path = folder / FILE
    private = make_private_key()
    # Upstream writes the two addresses empty, and reads them nowhere.
    text = f'address: ""\nsubnet: ""\nprivateKey: {private}\npublicKey: {make_public_key(private)}\n'
    try:
        content: Any = yaml.safe_load(keep_file(path, text))
        kept = str(content["privateKey"])
        return Keys(kept, make_public_key(kept))
    except (yaml.YAMLError, TypeError, KeyError, ValueError) as error:
        # A parser's error would show a part of the file.
        reason = str(error) if type(error) is ValueError else "is no mapping with a privateKey"
        raise ValueError(f"{path}: {reason}: restore the file, or reset the node") from None
