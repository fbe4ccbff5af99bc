"""Users of registries: names and passwords by host, as ``docker login`` and Kubernetes' Secrets have them.

https://kubernetes.io/docs/tasks/configure-pod-container/pull-image-private-registry/#log-in-to-docker-hub
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field

from talos.system.errors import UserError
from talos.system.parsed import as_object, parse_object

HELPERS = ("credsStore", "credHelpers")


@dataclass(frozen=True, slots=True)
class Credentials:
    """``user:password`` by a registry's host and port."""

    by_host: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def find(self, host: str) -> str:
        """The value of ``Authorization`` for a host, empty for none."""
        found = self.by_host.get(host, "")
        return f"Basic {b64encode(found.encode()).decode()}" if found else ""


ANONYMOUS = Credentials()


def parse_credentials(data: bytes, *, where: str) -> Credentials:
    """The credentials of a Docker config; UserError."""
    document = parse_object(data)
    auths = as_object(document.get("auths"))
    if not auths:
        helper = next((name for name in HELPERS if document.get(name)), "")
        reason = f"leaves the password to another program ({helper})" if helper else "has no auths"
        hint = 'write {"auths": {"registry.example.org": {"username": …, "password": …}}}'
        raise UserError(reason, where=where, hint=hint)
    found: dict[str, str] = {}
    for place, entry in auths.items():
        # Docker writes https://index.docker.io/v1/ for its own.
        host = place.partition("://")[2] or place
        found[host.partition("/")[0]] = _find_password(as_object(entry), f"{where}: auths[{place!r}]")
    return Credentials(found)


def _find_password(entry: Mapping[str, object], where: str) -> str:
    auth, user, password = entry.get("auth"), entry.get("username"), entry.get("password")
    text = f"{user}:{password}" if isinstance(user, str) and isinstance(password, str) else ""
    if not text and isinstance(auth, str):
        try:
            text = b64decode(auth, validate=True).decode().rstrip("\0")
        except ValueError:
            text = ""
    if not text.partition(":")[0] or not text.partition(":")[2] or not text.isprintable():
        raise UserError("has no user with a password", where=where, hint="an identity token can't be used")
    return text
