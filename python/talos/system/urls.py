"""URLs as others than the one who wrote them may see them."""

import re

_USER = re.compile(r"(?<=://)[^/?#]*@")


def without_password(url: str) -> str:
    """A URL without the user in it: reports, names and statuses reach everybody who may read resources."""
    return _USER.sub("", url)
