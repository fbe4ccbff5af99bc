"""The cluster's network: a bridge in a network namespace of its own, and a cable to the host.

The namespace belongs to the launcher and ends with it; the bridge has the address of what the launcher
serves to the nodes. Each node's eth0 is one end of a veth
pair whose other end is in the bridge; so is the host's interface, which has the gateway's
address. An unmodified client on the host therefore reaches every node at its own address.
"""

import os
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from talos.provision.cluster import ClusterRequest

BRIDGE = "br0"
_UPLINK = "uplink"
# Between two questions who has an address. The kernel's own second would be the time for which a
# node that has just got its address stays out of reach for a client that was a moment too early.
_RETRANSMIT_MILLISECONDS = 50


def hardware_address(address: IPv4Address) -> str:
    """A stable, locally administered address, so that neighbours' caches outlive a node's restart."""
    return ":".join(f"{byte:02x}" for byte in b"\x02\x54" + address.packed)


class ClusterNetwork:
    """Moves this process into the cluster's new network namespace and keeps a door to the host's."""

    def __init__(self, request: ClusterRequest, link: str) -> None:
        self._request = request
        self._link = link
        # A netlink socket belongs to the namespace in which it was made.
        self._host: Any = IPRoute()
        host_namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        os.unshare(os.CLONE_NEWNET)
        self._inner: Any = IPRoute()
        try:
            self._build(host_namespace)
        finally:
            os.close(host_namespace)

    def _build(self, host_namespace: int) -> None:
        request = self._request
        self._inner.link("add", ifname=BRIDGE, kind="bridge", mtu=request.mtu)
        self._bridge: int = self._inner.link_lookup(ifname=BRIDGE)[0]
        self._inner.addr(
            "add", index=self._bridge, address=str(request.services), prefixlen=request.subnet.prefixlen
        )
        self._inner.link("set", index=self._bridge, state="up")
        delete_link(self._host, self._link)
        self._inner.link(
            "add",
            ifname=_UPLINK,
            kind="veth",
            mtu=request.mtu,
            peer={
                "ifname": self._link,
                "net_ns_fd": host_namespace,
                "mtu": request.mtu,
                "address": hardware_address(request.gateway),
            },
        )
        uplink = self._inner.link_lookup(ifname=_UPLINK)[0]
        self._inner.link("set", index=uplink, master=self._bridge, state="up")
        index = self._host.link_lookup(ifname=self._link)[0]
        self._host.link("set", index=index, ifalias=f"talos cluster {request.name}")
        self._host.addr("add", index=index, address=str(request.gateway), prefixlen=request.subnet.prefixlen)
        self._host.link("set", index=index, state="up")
        _write_in(host_namespace, f"ipv4/neigh/{self._link}/retrans_time_ms", str(_RETRANSMIT_MILLISECONDS))

    def plug(self, address: IPv4Address, pid: int) -> None:
        """Give the network namespace of a process its eth0: down, without address."""
        # The kernel tears a namespace down later than its last process: don't wait for it.
        name = f"node{int(address) - int(self._request.subnet.network_address)}"
        delete_link(self._inner, name)
        self._inner.link(
            "add",
            ifname=name,
            kind="veth",
            mtu=self._request.mtu,
            peer={
                "ifname": "eth0",
                "net_ns_pid": pid,
                "mtu": self._request.mtu,
                "address": hardware_address(address),
            },
        )
        index = self._inner.link_lookup(ifname=name)[0]
        self._inner.link("set", index=index, master=self._bridge, state="up")

    def add_tap(self, address: IPv4Address) -> str:
        """A tap in the bridge for a machine; its name."""
        name = f"tap{int(address) - int(self._request.subnet.network_address)}"
        delete_link(self._inner, name)
        self._inner.link("add", ifname=name, kind="tuntap", mode="tap")
        index = self._inner.link_lookup(ifname=name)[0]
        self._inner.link("set", index=index, mtu=self._request.mtu, master=self._bridge, state="up")
        return name

    def close(self) -> None:
        """Take the host's interface away; the rest goes with the namespace."""
        delete_link(self._host, self._link)
        self._inner.close()
        self._host.close()


def _write_in(namespace: int, parameter: str, value: str) -> None:
    """Set one of /proc/sys/net in another network namespace: there, one sees one's own only."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.setns(namespace, os.CLONE_NEWNET)
        try:
            Path("/proc/sys/net", parameter).write_text(value, encoding="ascii")
        finally:
            os.setns(own, os.CLONE_NEWNET)
    finally:
        os.close(own)


def delete_link(route: Any, name: str) -> bool:
    """Delete an interface; false when there is none of this name."""
    for index in route.link_lookup(ifname=name):
        try:
            route.link("del", index=index)
        except NetlinkError as error:
            # ENODEV: its namespace took it along in the meantime.
            if error.code != 19:
                raise
            return False
        return True
    return False


def delete_host_link(name: str) -> bool:
    """Delete an interface of the host; false when there is none of this name."""
    if not Path("/sys/class/net", name).exists():
        return False
    with IPRoute() as route:
        return delete_link(route, name)
