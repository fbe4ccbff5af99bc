"""From the talosconfig and the flags to what a command talks to."""

import base64
from pathlib import Path
from typing import Any, cast

from talos.talosctl.cli.flag import Flags
from talos.talosctl.client.endpoint import parse_endpoint
from talos.talosctl.client.target import Target
from talos.talosctl.output.yaml_text import parse_yaml


def select_target(flags: Flags) -> Target:
    """The context the flags name, or the current one, with the flags' own values on top."""
    insecure = flags.has("insecure") and flags.is_set("insecure")
    fingerprints = flags.texts("cert-fingerprint") if flags.has("cert-fingerprint") else ()
    if insecure:
        return Target(endpoints=(), nodes=flags.texts("nodes"), insecure=True, fingerprints=fingerprints)
    data = cast("dict[str, Any]", parse_yaml(Path(flags.text("talosconfig")).read_text()))
    name = flags.text("context") or data["context"]
    context = data["contexts"][name]
    return Target(
        context=name,
        endpoints=tuple(map(parse_endpoint, flags.texts("endpoints") or context.get("endpoints") or ())),
        nodes=flags.texts("nodes") or tuple(context.get("nodes") or ()),
        ca=base64.b64decode(context.get("ca") or ""),
        crt=base64.b64decode(context.get("crt") or ""),
        key=base64.b64decode(context.get("key") or ""),
        cluster=flags.text("cluster") or context.get("cluster") or "",
        proxy_url=context.get("proxy-url") or "",
    )
