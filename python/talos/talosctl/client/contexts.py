"""Contexts of the talosconfig, for completion."""

from collections.abc import Sequence

from talos.config.talosconfig import open_talosconfig
from talos.talosctl.cli.command import Invocation


def complete_contexts(invocation: Invocation, prefix: str) -> Sequence[str]:  # noqa: ARG001 - a completer's shape
    """Names of contexts."""
    if invocation.args:
        return ()
    return tuple(open_talosconfig(invocation.flags.text("talosconfig"))[0].contexts)
