"""What each daemon may read and write in the node's State, and the guard that holds it to that.

A grant is what the daemon's row names for its main function and what its controllers declare. PID 1 can't
import a daemon's controllers, so their declarations are a table, ``controllers.tsv``: `make grants`
writes it, and a test compares it with the controllers.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from talos.api.rpc import Call, Code, RpcError
from talos.api.tables import read_table
from talos.process.daemons import BY_NAME, DAEMONS, DaemonSpec
from talos.resource.builtin import NAMESPACES
from talos.resource.controller.access import InputStrength
from talos.resource.controller.controller import Controller
from talos.resource.kinds import REGISTRY
from talos.resource.memory.usage import Usage
from talos.resource.remote.service import Guard, ResourceAccess, Verb
from talos.system.logging import Log

TABLE = Path(__file__).with_name("controllers.tsv")
COLUMNS = ("daemon", "controller", "access", "type", "namespace", "id")
READ, WRITE = "read", "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """What one daemon may do: everything else is refused.

    ``ids`` maps type and namespace to the ids that it may read, None among them for all. ``owners`` maps
    a type to the names under which it may write: those of the controllers that declare it as an output.
    What it writes it may read, in every namespace.
    """

    daemon: str
    ids: Mapping[tuple[str, str], frozenset[str | None]]
    owners: Mapping[str, frozenset[str]]

    def allows(self, access: ResourceAccess) -> bool:
        """Whether the daemon may do this."""
        if access.namespace not in NAMESPACES:  # each that is watched or written in takes memory for good
            return False
        owners = self.owners.get(access.type, frozenset[str]())
        if access.verb.is_write:
            return access.owner in owners
        ids = self.ids.get((access.type, access.namespace), frozenset[str | None]())
        return bool(owners) or None in ids or (access.id is not None and access.id in ids)


def load_grants() -> Mapping[str, Grants]:
    """The grants of every daemon, by its name."""
    rows = list(read_table(TABLE))
    return {daemon.name: _collect(daemon, rows) for daemon in DAEMONS}


def _collect(daemon: DaemonSpec, rows: Sequence[Mapping[str, str]]) -> Grants:
    ids: defaultdict[tuple[str, str], set[str | None]] = defaultdict(set)
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for item in daemon.reads:
        ids[item.kind.type, item.effective_namespace].add(item.id)
    for row in rows:
        if row["daemon"] != daemon.name:
            continue
        if row["access"] == WRITE:
            owners[row["type"]].add(row["controller"])
        else:
            ids[row["type"], row["namespace"]].add(row["id"] or None)
    return Grants(
        daemon=daemon.name,
        ids={key: frozenset(found) for key, found in ids.items()},
        owners={name: frozenset(found) for name, found in owners.items()},
    )


def make_guard(grants: Grants, log: Log, usage: Usage) -> Guard:
    """The guard of one daemon's socket. What it refuses is logged, once for each verb and type.

    A refusal is a daemon that was taken over, or a controller whose declaration is not in the table.
    ``usage`` is the State's: what a daemon has written may take no more than its row grants.
    """
    refused: set[tuple[Verb, str]] = set()
    owners = frozenset[str]().union(*grants.owners.values())
    daemon = BY_NAME[grants.daemon]

    def refuse(code: Code, reason: str, access: ResourceAccess) -> RpcError:
        if access.type in REGISTRY and (access.verb, access.type) not in refused:
            refused.add((access.verb, access.type))
            log.error(reason)
        return RpcError(code, reason)

    async def check(_call: Call, access: ResourceAccess) -> None:
        what = f"{access.verb.value} {access.type}({access.namespace}/{access.id or '*'})"
        if not grants.allows(access):
            as_owner = f" as {access.owner or 'no owner'}" if access.verb.is_write else ""
            reason = f"{grants.daemon} is not granted to {what}{as_owner}"
            raise refuse(Code.PERMISSION_DENIED, reason, access)
        if not access.size:
            return
        limit = daemon.max_large if access.type in daemon.large else daemon.max_spec
        if access.size > limit:
            reason = f"{grants.daemon} may not {what} with {access.size} bytes, {limit} are allowed"
            raise refuse(Code.RESOURCE_EXHAUSTED, reason, access)
        if sum(map(usage.of, owners)) + access.size > daemon.max_bytes:
            reason = f"{grants.daemon} may not {what}: its resources take {daemon.max_bytes} bytes at most"
            raise refuse(Code.RESOURCE_EXHAUSTED, reason, access)

    return check


def make_rows(daemon: str, controllers: Sequence[Controller]) -> list[dict[str, str]]:
    """The table's rows of a daemon, from what its controllers declare."""
    rows: list[dict[str, str]] = []
    for controller in sorted(controllers, key=lambda item: item.name):
        row = {"daemon": daemon, "controller": controller.name}
        written = {output.kind.type for output in controller.outputs}
        reads = {
            (item.kind.type, item.effective_namespace, item.id or "")
            for item in controller.inputs
            if item.kind.type not in written
        }
        rows += [row | {"access": WRITE, "type": name, "namespace": "", "id": ""} for name in sorted(written)]
        rows += [
            row | {"access": READ, "type": name, "namespace": namespace, "id": one}
            for name, namespace, one in sorted(reads)
        ]
    return rows


def find_held(controllers: Sequence[Controller]) -> set[str]:
    """Types on which controllers put finalizers though none of them writes them."""
    written = {output.kind.type for controller in controllers for output in controller.outputs}
    return {
        item.kind.type
        for controller in controllers
        for item in controller.inputs
        if item.strength is InputStrength.STRONG and item.kind.type not in written
    }
