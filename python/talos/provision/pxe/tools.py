"""Where dnsmasq and iPXE are: in the pinned root that the build names, else on this machine."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from talos.system.errors import UserError
from talos.system.process import make_pinned_argv

ROOT_VARIABLE = "TALOS_PXE_ROOT"
_IPXE = "usr/lib/ipxe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """How dnsmasq is started, and the folder of iPXE's programs."""

    dnsmasq: tuple[str, ...]
    ipxe: Path


def find_tools(environment: Mapping[str, str] = os.environ) -> Tools:
    """Those of the pinned root, through its own loader, so that they run on any host."""
    root = environment.get(ROOT_VARIABLE, "")
    if root:
        return Tools(
            dnsmasq=make_pinned_argv(root, "usr/sbin/dnsmasq"),
            ipxe=Path(root, _IPXE),
        )
    found = shutil.which("dnsmasq", path=f"{environment.get('PATH', '')}:/usr/sbin")
    ipxe = Path("/", _IPXE)
    if not found or not ipxe.is_dir():
        raise UserError(
            "dnsmasq or iPXE is not installed", hint="start it as `nix run .#pxe`, which brings both"
        )
    return Tools(dnsmasq=(found,), ipxe=ipxe)
