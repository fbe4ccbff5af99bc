"""What the container platform hands to a node, in /system/platform."""

from typing import Any

import yaml

from talos.provision.cluster import ClusterRequest, NodeRequest


def make_cmdline(node: NodeRequest) -> str:
    """What takes the place of the kernel's command line."""
    return f"talos.platform=container talos.hostname={node.name}\n"


def make_network(request: ClusterRequest, node: NodeRequest) -> str:
    """The node's static network config, ``network.yaml``."""
    data: dict[str, Any] = {
        "hostname": node.name,
        "links": [
            {
                "name": "eth0",
                "mtu": request.mtu,
                "addresses": [str(request.interface(node))],
                "gateway": str(request.gateway),
            }
        ],
        "resolvers": [str(server) for server in request.nameservers],
        "timeServers": list(request.time_servers),
    }
    return yaml.safe_dump(data, sort_keys=False)
