"""The sockets that probes are sent by."""

import os

from talos.api.rpc import Code, RpcError
from talos.dnsd.probes.target import Target
from talos.system.net.echo import EchoSocket


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
        raise RpcError(
            Code.FAILED_PRECONDITION, f"no socket for {target.address}: {os.strerror(error.errno or 0)}"
        ) from None
