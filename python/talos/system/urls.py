"""URLs as others than the one who wrote them may see them, and the host in one."""

import re
from urllib.parse import urlsplit

HIDDEN = "***"
_USER = re.compile(r"(?<=://)[^/?#]*@")
_VALUE = re.compile(r"(?<=[?&])([^=&#]*=)?+(?!\$\{\w+\}(?:[&#]|\Z))[^&#]+")
"""Of a query. A variable that is still to be filled in is none."""


def without_secrets(url: str) -> str:
    """A URL without its user and the values of its query, which may be a password and tokens.

    Reports, names and statuses reach everybody who may read resources and logs.
    """
    return _VALUE.sub(rf"\1{HIDDEN}", _USER.sub("", url))


def find_host(url: str) -> str:
    """The host that a URL names, in lower case; empty when it names none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
