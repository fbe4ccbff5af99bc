"""The roles that a certificate is requested with."""

from collections.abc import Sequence

from talos.api.metadata import ROLES
from talos.system.errors import UserError
from talos.talosctl.cli.flag import Flags


def read_roles(flags: Flags) -> Sequence[str]:
    """What ``--roles`` has, each once; UserError for one that there is not."""
    roles = sorted({role.strip() for role in flags.texts("roles")} - {""})
    if unknown := [role for role in roles if role not in ROLES]:
        raise UserError(
            f"unknown roles: {', '.join(unknown)}", where="--roles", hint=f"use {', '.join(ROLES)}"
        )
    return roles
