"""Exoscale: the parts of Apache CloudStack, from a server of its own."""

from talos.machined.platform.clouds.cloudstack import make_cloud
from talos.machined.platform.clouds.server import LINK_LOCAL

BASE = f"{LINK_LOCAL}/1.0"

CLOUD = make_cloud(BASE, "exoscale")
