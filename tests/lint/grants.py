"""Write the table of what daemons' controllers declare, or with --check compare it."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from talos.bgpd import main as bgpd
from talos.clusterd import main as clusterd
from talos.clusterd.controllers.virtual_address import VirtualAddressController
from talos.dnsd import main as dnsd
from talos.kubed import main as kubed
from talos.kubed.node_access import KubeletIdentity, NodeAccess
from talos.logd import main as logd
from talos.networkd import main as networkd
from talos.process.grants import COLUMNS, TABLE, find_held, make_rows
from talos.resource.controller.controller import Controller
from talos.timed import main as timed
from talos.udevd import controllers as udevd

_NO_PORT = cast("Any", None)
"""Declarations are of the class: nothing here touches a port."""


def make_controllers() -> Mapping[str, Sequence[Controller]]:
    """The controllers of every daemon that has some."""
    return {
        "bgpd": bgpd.make_controllers(_NO_PORT),
        "clusterd": clusterd.make_controllers(
            _NO_PORT, _NO_PORT, VirtualAddressController(_NO_PORT, _NO_PORT), _NO_PORT
        ),
        "dnsd": dnsd.make_controllers(_NO_PORT),
        "kubed": kubed.make_controllers(_NO_PORT, NodeAccess(KubeletIdentity()), _NO_PORT, _NO_PORT),
        "logd": logd.make_controllers(_NO_PORT, _NO_PORT, _NO_PORT, _NO_PORT),
        "networkd": networkd.make_controllers(_NO_PORT, _NO_PORT),
        "timed": timed.make_controllers(_NO_PORT, _NO_PORT, _NO_PORT),
        "udevd": udevd.make_controllers(_NO_PORT, _NO_PORT),
    }


def make_table() -> str:
    """The table as it has to be."""
    lines = ["\t".join(COLUMNS)]
    for daemon, controllers in make_controllers().items():
        held = find_held(controllers)
        assert not held, f"{daemon} may not put finalizers on {', '.join(held)}: it writes none"
        lines += ["\t".join(row[name] for name in COLUMNS) for row in make_rows(daemon, controllers)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write, or compare."""
    table = make_table()
    if "--check" not in sys.argv:
        TABLE.write_text(table, encoding="utf-8")
    elif TABLE.read_text(encoding="utf-8") != table:
        sys.stdout.write(f"{TABLE} is not what the controllers declare: make grants\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
