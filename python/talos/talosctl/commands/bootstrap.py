"""``talosctl bootstrap``."""

from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from talos.api.common.common_pb2 import Data
from talos.api.machine.machine_pb2 import (
    Bootstrap,
    BootstrapRequest,
    BootstrapResponse,
    EtcdRecover,
    EtcdRecoverResponse,
)
from talos.client.session import Session
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import parts, run_one
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.output.transfer import showing_transfer

CHUNK = 32 * 1024


def run_bootstrap(invocation: Invocation) -> int:
    """Begin etcd on the first control plane node, from a snapshot when one is given."""
    flags = invocation.flags
    snapshot = Path(flags.text("recover-from")) if flags.is_given("recover-from") else None
    if snapshot and not snapshot.is_file():
        raise UserError("there is no such file", where=str(snapshot))
    request = BootstrapRequest(
        recover_etcd=snapshot is not None, recover_skip_hash_check=flags.is_set("recover-skip-hash-check")
    )

    async def call(session: Session, node: str) -> None:
        if snapshot:
            path = "/machine.MachineService/EtcdRecover"
            with showing_transfer(node, snapshot.stat().st_size) as note:
                recovered = await session.upload(node, path, _chunks(snapshot, note), EtcdRecoverResponse)
            list(parts(recovered, EtcdRecover))
        reply = await session.unary(node, "/machine.MachineService/Bootstrap", request, BootstrapResponse)
        list(parts(reply, Bootstrap))

    return run_one(invocation, "bootstrap", call)


async def _chunks(path: Path, note: Callable[[int], None]) -> AsyncGenerator[Data]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield Data(bytes=chunk)
            note(len(chunk))


COMMAND = Command(
    name="bootstrap",
    summary="Begin the cluster's etcd on this node",
    details="Begins the cluster's etcd. Do it once in a cluster's life, on one control plane node.",
    flags=(
        *CLIENT_FLAGS,
        Flag(name="recover-from", help="a snapshot of etcd to begin with"),
        Flag(
            name="recover-skip-hash-check",
            type=Type.BOOL,
            default="false",
            help="the snapshot is a copy of the database file",
        ),
    ),
    run=run_bootstrap,
)
