"""The sockets that probes are sent by."""

import os

import trio

from talos.api.rpc import Code, RpcError
from talos.dnsd.probes.target import Target
from talos.system.errors import lower_first
from talos.system.net.echo import EchoSocket
from talos.system.net.udp_probe import UdpProbeSocket


def open_echo_socket(target: Target) -> EchoSocket:
    """A socket for ICMP echo; RpcError where a config leaves out the daemon's group."""
    try:
        return EchoSocket(target.place)
    except PermissionError:
        raise RpcError(
            Code.FAILED_PRECONDITION,
            f"net.ipv4.ping_group_range leaves out the group {os.getegid()}: take it out of machine.sysctls",
        ) from None
    except OSError as error:
        raise _make_failure(target, error) from None


def open_udp_socket(target: Target) -> UdpProbeSocket:
    """A socket for datagrams; RpcError."""
    try:
        return UdpProbeSocket(target.place)
    except OSError as error:
        raise _make_failure(target, error) from None


def measure_round_trip(began: float, age: float) -> float:
    """Seconds from a packet, on trio's clock, to what came back, and has then waited ``age`` seconds here."""
    return max(0.0, trio.current_time() - began - age)


def format_error(error: OSError) -> str:
    """Why this node did not send a packet."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"not sent: {lower_first(reason)}"


def _make_failure(target: Target, error: OSError) -> RpcError:
    return RpcError(
        Code.FAILED_PRECONDITION, f"no socket for {target.address}: {os.strerror(error.errno or 0)}"
    )
