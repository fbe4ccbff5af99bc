"""``talosctl config info``."""

import datetime
import json

from talos.config.talosconfig.model import Context
from talos.config.talosconfig.places import open_talosconfig
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag
from talos.talosctl.output import console
from talos.talosctl.output.yaml_text import dump_yaml

FORMATS = ("text", "json", "yaml")
_LARGER = (
    (360 * 86400, "year"),  # twelve months of thirty days, as upstream counts: a year less a minute is one
    (30 * 86400, "month"),
    (86400, "day"),
    (3600, "hour"),
    (60, "minute"),
    (1, "second"),
)


def run_info(invocation: Invocation) -> int:
    """Show who one is, and where."""
    flags = invocation.flags
    output = flags.text("output")
    if output not in FORMATS:
        raise UserError(
            f'unknown output format: "{output}"', where="--output", hint=f"use {', '.join(FORMATS)}"
        )
    config, _ = open_talosconfig(flags.text("talosconfig"))
    name = flags.text("context") or config.context
    context = config.get(name)
    roles, expires = _identity(context)
    distance = describe_time(expires, datetime.datetime.now(datetime.UTC)) if expires else ""
    date = expires.strftime("%Y-%m-%d") if expires else ""
    if output == "text":
        rows = [
            ("Current context:", name),
            ("Nodes:", ", ".join(context.nodes) or "not defined"),
            ("Endpoints:", ", ".join(context.endpoints) or "not defined"),
        ]
        if roles:
            rows.append(("Roles:", ", ".join(roles)))
        if expires:
            rows.append(("Certificate expires:", f"{distance} ({date})"))
        for label, value in rows:
            console.write_line(f"{label:<20} {value}")
        return 0
    fields: dict[str, object] = {
        "context": name,
        "nodes": list(context.nodes),
        "endpoints": list(context.endpoints),
        "roles": roles,
        "certTTL": distance,
        "certNotAfter": date,
    }
    if output == "json":
        # Without a certificate nothing is known of the roles.
        console.write_line(json.dumps({**fields, "roles": roles if context.crt else None}, indent=2))
    else:
        console.write(dump_yaml(fields))
    return 0


def _identity(context: Context) -> tuple[list[str], datetime.datetime | None]:
    if not context.crt:
        return [], None
    from talos.pki.certificate import parse_certificate
    from talos.pki.names import organizations_of

    certificate = parse_certificate(context.crt, where="talosconfig: crt")
    return sorted(filter(None, organizations_of(certificate.subject))), certificate.not_valid_after_utc


def describe_time(moment: datetime.datetime, now: datetime.datetime) -> str:
    """``1 year from now``, ``2 days ago``."""
    seconds = round((moment - now).total_seconds())
    distance = abs(seconds)
    for size, unit in _LARGER:
        if distance >= size:
            count = distance // size
            text = f"{count} {unit}{'s' if count > 1 else ''}"
            return f"{text} from now" if seconds > 0 else f"{text} ago"
    return "now"


COMMAND = Command(
    name="info",
    summary="Show the current context",
    flags=(Flag(name="output", short="o", default="text", help="text, json or yaml"),),
    run=run_info,
)
