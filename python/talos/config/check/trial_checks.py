"""The checks of ``TrialCheckConfig``."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from talos.config.check.expressions import check_expression
from talos.config.check.forms import check_name, check_present
from talos.config.check.note import Check, Note
from talos.config.documents.runtime.trial_check import TrialCheckConfig
from talos.config.effective.trial_checks import MAX_CHECKS, MAX_TIMEOUT
from talos.config.model import Config
from talos.config.values import Duration

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
"""META has it, and every reason."""
_MAX_ENDPOINT = 260
"""Characters: a name of DNS, a colon and a port."""


def _trial_check(document: TrialCheckConfig) -> Iterator[Note]:
    at, http, tcp = Note.at(document), document.http, document.tcp
    yield from check_name(document, _NAME, "at most 63: small letters, digits and -")
    given = [key for key in ("http", "tcp", "cel") if getattr(document, key) is not None]
    if len(given) != 1:
        found = f"has {' and '.join(given)}" if given else "has no condition"
        yield at.find(found, hint="exactly one of http, tcp and cel")
    if http is not None:
        place = at.below("http")
        yield from check_present(http.url, place.below("url"), hint="such as http://127.0.0.1:8080/ready")
        if http.url and not http.url.host:
            yield place.below("url").find("names no host", hint="such as http://127.0.0.1:8080/ready")
        if "@" in urlsplit(http.url or "").netloc:
            # It would be in the reason, which every reader of diagnostics sees, and is not sent.
            yield place.below("url").find("has a user or password", hint="host, port and path")
        yield from _check_timeout(http.timeout, place)
    if tcp is not None:
        place = at.below("tcp")
        if not _is_endpoint(tcp.endpoint or ""):
            shown = f'"{tcp.endpoint}" is no host with a port' if tcp.endpoint else "is missing"
            yield place.below("endpoint").find(shown, hint="such as 10.0.0.5:5432 or [fd00::5]:5432")
        yield from _check_timeout(tcp.timeout, place)
    if document.cel is not None:
        yield from check_expression(document.cel, "TRIAL_CHECK", at.below("cel"), required=True)


def check_number(config: Config) -> Iterator[Note]:
    """At most so many: each is probed every second while it is needed."""
    for document in config.find_all(TrialCheckConfig)[MAX_CHECKS : MAX_CHECKS + 1]:
        yield Note.at(document).find(
            f"is one more than the {MAX_CHECKS} that a config may have",
            hint="one expression may have several conditions, joined by &&",
        )


def _check_timeout(timeout: Duration | None, at: Note) -> Iterator[Note]:
    if timeout is not None and not 0 < timeout.seconds <= MAX_TIMEOUT:
        hint = f"more than 0s, at most {MAX_TIMEOUT:.0f}s"
        yield at.below("timeout").find(f'"{timeout}" is out of range', hint=hint)


def _is_endpoint(text: str) -> bool:
    try:
        parts = urlsplit(f"//{text}")
        is_whole = parts.netloc == text and "@" not in text and len(text) <= _MAX_ENDPOINT
        return bool(is_whole and parts.hostname and parts.port)
    except ValueError:
        return False


CHECKS: dict[str, Check] = {"TrialCheckConfig": _trial_check}
