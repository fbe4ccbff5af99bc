"""The hop limit of IPv6 and the time to live of IPv4: how many routers a packet may pass, less one."""

import socket

import trio

# <linux/in.h>; Python has no name for it.
IP_RECVTTL = 12


def set_hop_limit(opened: socket.socket | trio.socket.SocketType, hops: int) -> None:
    """Of what is sent."""
    if opened.family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, hops)
    else:
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, hops)


def receive_hop_limits(opened: socket.socket | trio.socket.SocketType) -> None:
    """Have what is left of it at each packet's arrival among the ancillary data, as an int."""
    if opened.family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
    else:
        opened.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
