"""Checks of what users add to the command lines and the settings of Kubernetes' programs."""

from collections.abc import Iterator, Mapping
from typing import Any

from talos.config.arguments import find_denied, find_fixed
from talos.config.check.note import Note

_HINT = "leave it out: the system sets it"


def check_arguments(program: str, arguments: Mapping[str, Any] | None, at: Note) -> Iterator[Note]:
    """Arguments that the system alone gives; ``at`` is the place of ``extraArgs``."""
    for name in find_denied(program, list(arguments or {})):
        yield at.below(f"[{name}]").find(f'extra arg "{name}" is not allowed', hint=_HINT)


def check_kubelet_fields(fields: Mapping[str, Any] | None, at: Note) -> Iterator[Note]:
    """Fields of the kubelet's configuration that the system alone sets."""
    for name in find_fixed(fields or {}):
        message = f'kubelet configuration field "{name}" can\'t be overridden'
        yield at.below(name).find(message, hint=_HINT)
