"""The config's own conditions by which a node keeps a release, beside the self-check."""

from collections.abc import Mapping, Sequence

from talos.client.failure import describe
from talos.client.session import Session
from talos.config.effective.trial_checks import TrialCheck, list_trial_checks
from talos.config.read.loader import load
from talos.talosctl.client.change import read_config
from talos.talosctl.client.fanout import call_nodes
from talos.talosctl.output import console


async def find_checks(session: Session, nodes: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Of each node its trial checks as lines; a warning and none where its config can't be read."""
    found: dict[str, Sequence[str]] = {}
    for outcome in await call_nodes(session, nodes, _read_checks):
        if outcome.error is not None:
            reason, node = describe(outcome.error, session.target), outcome.node
            console.note(f"WARNING: {node}: which checks decide about the trial is not known: {reason}")
        else:
            found[outcome.node] = outcome.value or ()
    return found


async def _read_checks(session: Session, node: str) -> Sequence[str]:
    config = load(await read_config(session, node), source=f"node {node}")
    return [format_check(check) for check in list_trial_checks(config)]


def format_check(check: TrialCheck) -> str:
    """Its name and what it is about, as reasons have them."""
    return f'"{check.name}": {" ".join((check.url or check.endpoint or check.expression).split())}'
