"""Forms of names, labels, addresses and PEM texts, each as a message; empty without a mistake."""

import base64
import ipaddress
import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from talos.config.check.note import Note
from talos.config.schema import Document

_DNS_NAME = re.compile(
    r"[a-zA-Z0-9_][a-zA-Z0-9_-]{0,62}(?:\.[a-zA-Z0-9_][a-zA-Z0-9_-]{0,62})*[._]?", re.ASCII
)
_DOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_LABEL = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]{1,40}-----(?P<body>[A-Za-z0-9+/=\s]++)-----END ", re.ASCII)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MAX_NAME = 253  # RFC 1035
_MAX_ANNOTATIONS = 256 * 1024  # bytes, Kubernetes' limit


def is_dns_name(text: str) -> bool:
    """A name that resolvers accept."""
    return len(text) <= _MAX_NAME + 1 and _DNS_NAME.fullmatch(text) is not None


def is_domain(text: str) -> bool:
    """A subdomain of RFC 1123, as Kubernetes names objects."""
    return len(text) <= _MAX_NAME and _DOMAIN.fullmatch(text) is not None


def is_address(text: str) -> bool:
    """An address of IPv4 or IPv6."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_subnet_or_address(text: str) -> bool:
    """A prefix or an address."""
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return False
    return True


def find_bad_endpoint(url: str) -> str:
    """Of a URL that must lead to a host."""
    parts = urlsplit(url)
    if not parts.scheme:
        return "has no scheme"
    host = parts.hostname or ""
    if not host:
        return "names no host"
    if not is_subnet_or_address(host) and not is_dns_name(host):
        return f'"{host}" is neither an address nor a name'
    return ""


def check_endpoint(url: str, at: Note) -> Iterator[Note]:
    """A URL that must lead to a host."""
    wrong = find_bad_endpoint(url)
    if wrong:
        yield at.find(wrong, hint='such as "https://10.0.0.1:6443"')


def is_label_value(text: str) -> bool:
    """What the value of a label may be, which may be empty."""
    return not text or _LABEL.fullmatch(text) is not None


def check_labels(labels: Mapping[str, str] | None, at: Note) -> Iterator[Note]:
    """Labels of a Kubernetes object."""
    for key, value in (labels or {}).items():
        yield from check_label_key(key, at)
        if not is_label_value(value):
            yield at.below(f"[{key}]").find(
                "is no value of a label", hint="at most 63: letters, digits, -, _, ."
            )


def check_label_key(key: str, at: Note) -> Iterator[Note]:
    """A name, after a domain and a slash or alone."""
    domain, slash, name = key.rpartition("/")
    if not _LABEL.fullmatch(name) or (slash and not is_domain(domain)):
        yield at.below(f"[{key}]").find("is no key of a label", hint='such as "example.com/role"')


def check_annotations(annotations: Mapping[str, str] | None, at: Note) -> Iterator[Note]:
    """Annotations of a Kubernetes object."""
    for key in annotations or {}:
        yield from check_label_key(key.lower(), at)
    if sum(len(key) + len(value) for key, value in (annotations or {}).items()) > _MAX_ANNOTATIONS:
        yield at.find("are too large", hint=f"at most {_MAX_ANNOTATIONS} bytes")


def check_taints(taints: Mapping[str, str] | None, at: Note) -> Iterator[Note]:
    """Taints of a node: the value is an effect, or a label's value, a colon and an effect."""
    for key, text in (taints or {}).items():
        yield from check_label_key(key, at)
        value, _, effect = text.rpartition(":")
        if effect not in _EFFECTS:
            yield at.below(f"[{key}]").find(f'"{effect}" is no effect', hint=f"one of: {', '.join(_EFFECTS)}")
        elif not is_label_value(value):
            yield at.below(f"[{key}]").find("is no value of a label")


def check_pem(text: str, at: Note) -> Iterator[Note]:
    """At least one block of PEM; its content is checked where it is used."""
    for block in _PEM.finditer(text):
        try:
            base64.b64decode("".join(block["body"].split()), validate=True)
        except ValueError:
            continue
        return
    yield at.find("has no block of PEM", hint="the whole text, from BEGIN to END")


def check_present(value: object, at: Note, *, hint: str = "") -> Iterator[Note]:
    """It must be present and not empty."""
    if not value:
        yield at.find("is missing", hint=hint)


def check_name(document: Document, form: re.Pattern[str], hint: str) -> Iterator[Note]:
    """The name of a document."""
    name = getattr(document, "name", "")
    if name and not form.fullmatch(name):
        yield Note(f'"{name}" is no name for it', document, "name", hint)
