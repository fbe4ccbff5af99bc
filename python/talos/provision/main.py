"""Entry of the launcher: its arguments are the cluster's folder and a descriptor to report to."""

import json
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from talos.provision.cluster import ClusterRequest, Provider
from talos.provision.host.cgroups import Hierarchy, mounted_hierarchies
from talos.provision.launcher import Launcher, Nodes
from talos.provision.store import ClusterFolder, read_request
from talos.system import kernel

log = logging.getLogger(__name__)


def make_nodes(folder: ClusterFolder, request: ClusterRequest, hierarchies: Sequence[Hierarchy]) -> Nodes:
    """What runs the nodes of the request's provider."""
    match request.provider:
        case Provider.CONTAINER:
            from talos.provision.container.nodes import ContainerNodes

            return ContainerNodes(folder, request, hierarchies)
        case Provider.QEMU:
            from talos.provision.qemu.nodes import MachineNodes

            return MachineNodes(folder, request, hierarchies)


def main() -> None:
    """Run the cluster until a signal."""
    folder, descriptor = ClusterFolder(Path(sys.argv[1])), int(sys.argv[2])
    # The command that started this process waits for it; the one that stays has no parent to wait for.
    if os.fork():
        os._exit(0)
    # Our own standard error is the launcher's log.
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr, force=True
    )
    os.set_inheritable(descriptor, False)
    kernel.set_process_title(f"talosctl cluster launcher {folder.path}")
    kernel.set_child_subreaper()
    open_report = True

    def report(event: dict[str, Any]) -> None:
        nonlocal open_report
        if not open_report:
            return
        # The command that created the cluster may have ended meanwhile; that is no reason to stop.
        with suppress(BrokenPipeError):
            os.write(descriptor, json.dumps(event).encode() + b"\n")
        if event["event"] == "ready":
            os.close(descriptor)
            open_report = False

    try:
        request, hierarchies = read_request(folder), mounted_hierarchies()
        nodes = make_nodes(folder, request, hierarchies)
        Launcher(folder, request, nodes, hierarchies, report).run()
    except Exception as error:
        log.exception("the launcher ends")
        report({"event": "failed", "message": str(error)})
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
