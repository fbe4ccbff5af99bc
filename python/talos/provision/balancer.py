"""What stands before the control plane nodes of a local cluster, where they are more than one.

The cluster's endpoint stays when the node that it would otherwise name is restarted, replaced or upgraded.
"""

import argparse
from collections.abc import Sequence
from functools import partial

import trio

from talos.kubernetes.balancer import Balancer


def main() -> None:
    """Entry of the program that a cluster's launcher runs."""
    parser = argparse.ArgumentParser(description="a TCP balancer in front of a cluster's control plane")
    parser.add_argument("--addr", required=True, help="the address at which it listens")
    parser.add_argument("--ports", required=True, type=int, nargs="+", help="the same at the servers")
    parser.add_argument("--servers", required=True, nargs="+", help="the servers' addresses")
    chosen = parser.parse_args()
    trio.run(balance, chosen.addr, chosen.ports, chosen.servers)


async def balance(address: str, ports: Sequence[int], servers: Sequence[str]) -> None:
    """Listen at each port for the same one of the servers, until cancelled."""
    async with trio.open_nursery() as nursery:
        for port in ports:
            balancer = Balancer(lambda _endpoint, _healthy: None)
            balancer.set_endpoints([(server, port) for server in servers])
            await nursery.start(partial(trio.serve_tcp, balancer.serve, port, host=address))
