"""``EthernetConfig``: hardware settings of an Ethernet link."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import UINT32, Document, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class EthernetRingsConfig(Section):
    """Sizes of ring buffers."""

    rx: int | None = setting("for receiving", bounds=UINT32)
    tx: int | None = setting("for sending", bounds=UINT32)
    rx_mini: int | None = setting("small buffers for receiving", key="rx-mini", bounds=UINT32)
    rx_jumbo: int | None = setting("large buffers for receiving", key="rx-jumbo", bounds=UINT32)
    rx_buf_len: int | None = setting("bytes of a buffer for receiving", key="rx-buf-len", bounds=UINT32)
    cqe_size: int | None = setting("bytes of a completion entry", key="cqe-size", bounds=UINT32)
    tx_push: bool | None = setting("send descriptors directly", key="tx-push")
    rx_push: bool | None = setting("receive descriptors directly", key="rx-push")
    tx_push_buf_len: int | None = setting("bytes of the direct buffer", key="tx-push-buf-len", bounds=UINT32)
    tcp_data_split: bool | None = setting("split headers from data", key="tcp-data-split")


@dataclass(frozen=True, slots=True, kw_only=True)
class EthernetChannelsConfig(Section):
    """Numbers of channels."""

    rx: int | None = setting("for receiving", bounds=UINT32)
    tx: int | None = setting("for sending", bounds=UINT32)
    other: int | None = setting("for other purposes", bounds=UINT32)
    combined: int | None = setting("for both directions", bounds=UINT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class EthernetConfig(Document):
    """Hardware settings of an Ethernet link."""

    kind: ClassVar[str] = "EthernetConfig"
    named: ClassVar[bool] = True

    name: str = setting("link to configure", default="")
    features: Mapping[str, bool] | None = setting("offload features to switch")
    rings: EthernetRingsConfig | None = setting("sizes of ring buffers")
    channels: EthernetChannelsConfig | None = setting("numbers of channels")
    wake_on_lan: tuple[str, ...] | None = setting(
        "what wakes the machine",
        allowed=("phy", "unicast", "multicast", "broadcast", "magic", "magicsecure", "filter"),
    )
