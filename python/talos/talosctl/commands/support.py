"""``talosctl support``."""

import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from talos.api.rpc import RpcError
from talos.client.failure import describe
from talos.client.session import Session, open_session
from talos.client.target import Target
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import need_nodes, run_async
from talos.talosctl.client.fanout import call_nodes, report_failures
from talos.talosctl.client.flags import CLIENT_FLAGS, INSECURE_FLAGS
from talos.talosctl.client.select import find_target
from talos.talosctl.commands.support_items import collect, find_items
from talos.talosctl.commands.support_kubernetes import read_objects
from talos.talosctl.output import age, console
from talos.talosctl.output.room import Room

PLAIN, ENCRYPTED = "support.zip", "support.zip.age"
ERRORS = "errors.txt"
RECIPIENTS = "--encryption-recipients"
MAX_NAME = 1024
"""Characters of a file's name; an archive can't have more than 65535 bytes."""
_OUTSIDE = re.compile(r"[\\:\0-\x1f\x7f]|^\.*$")
"""In a part of a path: what separates in Windows, controls; all of one that is empty or goes up."""


def run_support(invocation: Invocation) -> int:
    """Collect what helps to understand the nodes into one archive."""
    flags = invocation.flags
    recipients = flags.texts("encryption-recipients")
    if recipients and flags.is_set("no-encryption"):
        raise UserError("nothing is encrypted with --no-encryption", where=RECIPIENTS)
    age.check_recipients(recipients, where=RECIPIENTS)
    path = Path(flags.text("output") or (ENCRYPTED if recipients else PLAIN))
    check_path(path)
    is_verbose, workers = flags.is_set("verbose"), flags.number("num-workers")

    async def main() -> int:
        target = await find_target(flags)
        return await write_bundle(
            target, need_nodes(target), path, recipients=recipients, workers=workers, is_verbose=is_verbose
        )

    return run_async(main())


def make_entry(name: str) -> str:
    """A file's name in the archive: where it is unpacked, a node that chooses it can't leave its folder."""
    return "/".join(_OUTSIDE.sub("_", part) for part in name[:MAX_NAME].split("/"))


def check_path(path: Path) -> None:
    """UserError when the archive would replace a file, or its folder is not there."""
    if path.exists():
        raise UserError(f'file "{path}" already exists', hint="name another one")
    if not os.access(path.parent, os.W_OK):
        raise UserError("is no folder that can be written to", where=str(path.parent))


async def write_bundle(
    target: Target,
    nodes: Sequence[str],
    path: Path,
    *,
    recipients: Sequence[str] = (),
    workers: int = 1,
    is_verbose: bool = False,
) -> int:
    """Write what nodes have into one archive, ``workers`` calls at a time to each; the exit code."""
    with tempfile.TemporaryFile() as archive:
        room = Room(archive.fileno(), where=tempfile.gettempdir())
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as bundle:

            async def gather(session: Session, node: str) -> None:
                failures: list[str] = []
                items = await find_items(session, node)
                done = 0

                def keep(name: str, result: bytes | RpcError | UserError) -> None:
                    nonlocal done
                    done += 1
                    entry = f"{node}/{make_entry(name)}"
                    if not isinstance(result, bytes):
                        failures.append(f"{name}: {describe(result, target)}")
                    elif entry in bundle.NameToInfo:
                        failures.append(f"{name}: the node has it twice")
                    else:
                        room.use(len(result))
                        bundle.writestr(entry, result)
                    if is_verbose:
                        console.note(f"{node}: {done}/{len(items)} {name}")

                await collect(items, workers, keep)
                if failures:
                    bundle.writestr(f"{node}/{ERRORS}", "".join(f"{line}\n" for line in sorted(failures)))
                missing = f", {len(failures)} could not be read, see {ERRORS}" if failures else ""
                console.write_line(f"{node}: {len(items) - len(failures)} files{missing}")

            async with open_session(target) as session:
                outcomes = await call_nodes(session, nodes, gather)
                code = report_failures(session, outcomes)
                try:
                    for name, content in (await read_objects(session)).items():
                        bundle.writestr(name, content)
                except (RpcError, UserError) as error:
                    console.note(f"Kubernetes' objects are left out: {describe(error, target)}")
        if all(outcome.error for outcome in outcomes):
            return code
        archive.seek(0)
        _write(path, archive, recipients)
    console.note(f"support bundle is written to {path}")
    return code


def _write(path: Path, archive: IO[bytes], recipients: Sequence[str]) -> None:
    try:
        # Logs may hold what is not for everyone's eyes. A file that appeared meanwhile stays.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            if recipients:
                age.encrypt(archive, file, recipients, where=RECIPIENTS)
            else:
                shutil.copyfileobj(archive, file)
    except OSError as error:
        raise UserError(f"can't be written: {error.strerror}", where=str(path)) from error


COMMAND = Command(
    name="support",
    summary="Collect logs, resources and states of nodes into an archive",
    details="Writes a zip archive with a folder for each node: logs, kernel log, states of services, all "
    "resources without secrets, processes, mounts, the graph of controllers, logs of the system's pods; "
    "beside them Kubernetes' nodes and system pods. It is encrypted only when recipients are given.",
    example="talosctl support -n 10.5.0.2,10.5.0.3 -O cluster.zip",
    flags=(
        *CLIENT_FLAGS,
        *INSECURE_FLAGS,
        Flag(
            name="encryption-no-default-recipients",
            type=Type.BOOL,
            default="false",
            help="accepted: there are no default recipients",
        ),
        Flag(
            name="encryption-recipients",
            type=Type.STRING_ARRAY,
            help="encrypt the archive with age for this public key (age1… or ssh-…), repeatable",
        ),
        Flag(name="no-encryption", type=Type.BOOL, default="false", help="do not encrypt"),
        Flag(name="num-workers", short="w", type=Type.INT, default="1", help="calls at a time to each node"),
        Flag(name="output", short="O", help=f"the file to write, {PLAIN} or {ENCRYPTED} by default"),
        Flag(name="verbose", short="v", type=Type.BOOL, default="false", help="name every file"),
    ),
    run=run_support,
)
