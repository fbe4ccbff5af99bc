"""The shape of a command that works on the whole cluster's Kubernetes, over one session."""

from collections.abc import Awaitable, Callable

from talos.api.rpc import RpcError
from talos.client.failure import describe
from talos.client.session import Session, open_session
from talos.client.target import Target
from talos.kubernetes.client import KubernetesError
from talos.talosctl.cli.flag import Flags
from talos.talosctl.client.command import need_one_node
from talos.talosctl.client.failure import find_exit
from talos.talosctl.client.select import find_target
from talos.talosctl.output import console

type Work = Callable[[Session, str], Awaitable[None]]
"""What is done over a session by way of the one node that leads to the others."""


async def run_on_cluster(flags: Flags, name: str, work: Work) -> int:
    """Do a command's work; the exit code of the API that fails, with the reason on the error output."""
    target = await find_target(flags)
    node = need_one_node(target, name)
    try:
        async with open_session(target) as session:
            await work(session, node)
    except (RpcError, KubernetesError) as error:
        return report_failure(error, target)
    return 0


def report_failure(error: RpcError | KubernetesError, target: Target) -> int:
    """Report which API failed and why; the exit code."""
    text = describe(error, target) if isinstance(error, RpcError) else f"the Kubernetes API: {error}"
    console.note(f"error: {text}")
    return find_exit(error)
