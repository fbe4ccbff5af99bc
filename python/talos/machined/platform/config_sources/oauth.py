"""The client of the device flow that kernel arguments name: a person lets a machine have its config."""

from urllib.parse import urlsplit, urlunsplit

from talos.machined.platform.arguments import OAUTH, OAUTH_CLIENT
from talos.machined.platform.config_sources.variables import check_variables
from talos.process.device_flow import Client
from talos.system.errors import UserError
from talos.system.proc.cmdline import Cmdline
from talos.system.urls import without_secrets

VARIABLE = f"{OAUTH}extra_variable"


def make_client(arguments: Cmdline, url: str) -> Client:
    """The client that the arguments name, with its servers beside that of ``url`` where they name none.

    UserError: when they are no URLs, or there is no such variable.
    """
    check_variables(arguments.all(VARIABLE), where=VARIABLE)
    return Client(
        id=arguments.first(OAUTH_CLIENT),
        secret=arguments.first(f"{OAUTH}client_secret"),
        scope=" ".join(arguments.all(f"{OAUTH}scope")),
        audience=arguments.first(f"{OAUTH}audience"),
        device_url=_find_url(arguments, f"{OAUTH}device_auth_url", url, "/device/code"),
        token_url=_find_url(arguments, f"{OAUTH}token_url", url, "/token"),
    )


def _find_url(arguments: Cmdline, name: str, url: str, path: str) -> str:
    given = arguments.first(name)
    if not given:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, parts.netloc, path, "", ""))
    if not given.lower().startswith(("http://", "https://")):
        raise UserError(f'"{without_secrets(given)}" is no URL', where=name, hint="http:// or https://")
    return given
