"""What the container platform hands to a node, in /system/platform."""

from typing import Any

import yaml

from talos.provision.cluster import ClusterRequest, NodeRequest
from talos.upgrade.release.initramfs import IMAGE
from talos.upgrade.slots.folder import Boot
from talos.upgrade.state import TIMEOUT_ARGUMENT, TRIAL_ARGUMENT

TRIAL_TIMEOUT = 120  # seconds
"""Less than on a machine: there is no firmware, and there are no disks to wait for."""


def make_cmdline(node: NodeRequest, boot: Boot) -> str:
    """What takes the place of the kernel's command line; as with GRUB, it begins with what was booted."""
    trial = f" {TRIAL_ARGUMENT} {TIMEOUT_ARGUMENT}={TRIAL_TIMEOUT}" if boot.is_trial else ""
    return f"BOOT_IMAGE=/{boot.slot}/{IMAGE} talos.platform=container talos.hostname={node.name}{trial}\n"


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
