"""A cluster's context in the user's talosconfig: put there, taken away."""

from dataclasses import replace
from pathlib import Path

from talos.config.talosconfig.model import TalosConfig
from talos.config.talosconfig.places import open_talosconfig, save


def add_context(own: TalosConfig, destination: str = "") -> tuple[str, Path]:
    """Merge the cluster's context into the user's file and select it.

    What the context is called there (a name that is taken gets a number), and the file.
    """
    user, path = open_talosconfig(destination)
    merged, _ = user.merge(own)
    save(merged, path)
    return merged.context, path


def remove_context(own: TalosConfig, destination: str = "") -> list[str]:
    """Take away every context of the cluster, known by its authority; the names they had.

    When the selected one is among them, another is selected, or none if none is left.
    """
    authorities = {context.ca for context in own.contexts.values() if context.ca}
    user, path = open_talosconfig(destination)
    removed = [name for name, context in user.contexts.items() if context.ca in authorities]
    if removed:
        left = {name: context for name, context in user.contexts.items() if name not in removed}
        current = user.context if user.context in left else next(iter(left), "")
        save(replace(user, context=current, contexts=left), path)
    return removed
