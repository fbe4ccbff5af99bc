"""The kernel arguments ``talos.*`` and their valid values, so that mistakes are logged at boot.

Who uses an argument reads it from ``machine.platform.arguments``. A malformed one counts as not given.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from talos.config.read.reader import did_you_mean
from talos.machined.platform.clouds.registry import MODULES as CLOUDS
from talos.system.proc.cmdline import Cmdline, hide_secrets
from talos.upgrade.slots.systemd_boot.entry import NETWORK_URL

PREFIX = "talos."
PLATFORM = f"{PREFIX}platform"
METAL = "metal"
"""The platform of a machine that no cloud looks after."""
PLATFORMS = (METAL, *CLOUDS)
OAUTH = "talos.config.oauth."
OAUTH_CLIENT = f"{OAUTH}client_id"
HOSTNAME = "talos.hostname"
ENVIRONMENT = "talos.environment"


@dataclass(frozen=True, slots=True)
class Form:
    """The valid values of an argument."""

    is_valid: Callable[[str], bool]
    hint: str


def _matches(pattern: str, hint: str) -> Form:
    expression = re.compile(pattern, re.IGNORECASE)
    return Form(lambda value: expression.fullmatch(value) is not None, hint)


_TEXT = _matches(r".+", "it needs a value")
_SWITCH = _matches(r"|0|1|t|true|f|false|on|off|yes|no", "1 or 0")
_ON = r"|1|t|true|on|yes"
_VARIABLE = _matches(r"[a-z_][a-z0-9_]*=.*", "NAME=VALUE")

FORMS: Mapping[str, Form] = {
    PLATFORM: _matches("|".join(("container", *PLATFORMS)), f"one of {', '.join(PLATFORMS)}"),
    "talos.config": _matches(r"|none|metal-iso|https?://.+", "a URL, metal-iso or none"),
    "talos.config.inline": _TEXT,
    "talos.config.early": _TEXT,
    OAUTH_CLIENT: _TEXT,
    f"{OAUTH}client_secret": _TEXT,
    f"{OAUTH}audience": _TEXT,
    f"{OAUTH}scope": _TEXT,
    f"{OAUTH}device_auth_url": _matches(r"https?://.+", "a URL"),
    f"{OAUTH}token_url": _matches(r"https?://.+", "a URL"),
    f"{OAUTH}extra_variable": _TEXT,
    HOSTNAME: _matches(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9-]+)*", "a DNS name"),
    "talos.experimental.wipe": _matches(r"system(:[^,]+(,[^,]+)*)?", "system, or system:EPHEMERAL,STATE"),
    "talos.halt_if_installed": _SWITCH,
    "talos.shutdown": _matches(r"halt", "halt"),
    "talos.dashboard.disabled": _SWITCH,
    "talos.dashboard.console": _TEXT,
    "talos.debug.disabled": _SWITCH,
    "talos.device.settle_time": _matches(r"([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+|0", "such as 5s"),
    "talos.network.interface.ignore": _TEXT,
    NETWORK_URL: _matches(r"https?://.+", "a URL"),
    "talos.trial": _SWITCH,
    "talos.trial.limit": _matches(r"[0-9]+", "seconds, such as 600"),
    ENVIRONMENT: _VARIABLE,
    "talos.events.sink": _matches(r"(tls://)?[^/]+:[0-9]+", "a host and a port"),
    "talos.logging.kernel": _matches(r"(udp|tcp|tls)://[^/]+:[0-9]+/?", "such as udp://10.0.0.1:514"),
    "talos.auditd.disabled": _matches(_ON, "nodes have no auditd that could run; leave it out"),
    "talos.unified_cgroup_hierarchy": _matches(_ON, "machines have cgroups of version 2 only; leave it out"),
}


def find_problems(arguments: Cmdline) -> tuple[str, ...]:
    """A line for every ``talos.*`` argument that is unknown or malformed, or lacks another one."""
    lines: list[str] = []
    for name, value in arguments.arguments:
        if not name.startswith(PREFIX):
            continue
        form = FORMS.get(name)
        if form is None:
            hint = did_you_mean(name, FORMS)
            lines.append(f"{name}: there is no such argument" + (f" ({hint})" if hint else ""))
        elif name.startswith(OAUTH) and not arguments.has(OAUTH_CLIENT):
            lines.append(f"{name}: it has no effect without {OAUTH_CLIENT}")
        elif not form.is_valid(value):
            lines.append(f'{name}: "{hide_secrets(value)}" is ignored ({form.hint})')
    return tuple(lines)


def find_hostname(arguments: Cmdline) -> str:
    """The name of ``talos.hostname``, empty when it is none."""
    name = arguments.first(HOSTNAME)
    return name if FORMS[HOSTNAME].is_valid(name) else ""


def find_environment(arguments: Cmdline) -> Mapping[str, str]:
    """The variables of ``talos.environment``; the last value of a name is the one."""
    lines = (value for value in arguments.all(ENVIRONMENT) if _VARIABLE.is_valid(value))
    return {name: value for name, _, value in (line.partition("=") for line in lines)}
