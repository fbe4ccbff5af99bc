"""Looks for a cluster's secrets in what it shows, also where they are encoded, or inside of other texts."""

import base64
import binascii
import re
from collections.abc import Mapping

from talos.config.secrets.bundle import SecretsBundle

_ENCODED = re.compile(rb"[A-Za-z0-9+/_-]{16,}={0,2}")
_BLANK = re.compile(rb"\s|\\n")
MAX_DEPTH = 4
"""Of base64 within base64: a kubeconfig in a Secret has keys that are encoded thrice."""


def find_secrets(bundle: SecretsBundle) -> Mapping[str, bytes]:
    """What only an administrator may see, by its name."""
    keys = {
        "key of etcd's CA": bundle.etcd.key,
        "key of Kubernetes' CA": bundle.kubernetes.key,
        "key of the aggregator's CA": bundle.aggregator.key,
        "key of service accounts": bundle.service_account,
        "key of the API's CA": bundle.os.key,
    }
    texts = {
        "secret of the cluster": bundle.cluster_secret,
        "bootstrap token": bundle.bootstrap_token.partition(".")[2],
        "secretbox": bundle.secretbox_secret,
        "aescbc": bundle.aescbc_secret,
        "token of machines": bundle.trustd_token,
    }
    found = {name: _find_body(key) for name, key in keys.items()}
    return {name: secret for name, secret in (found | _encode(texts)).items() if secret}


def _encode(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in texts.items()}


def _find_body(pem: bytes) -> bytes:
    """The middle of a key, which is the same however its lines are broken."""
    lines = pem.strip().splitlines()[1:-1]
    body = b"".join(lines)
    return body[len(body) // 4 :]


def find_disclosed(content: bytes, secrets: Mapping[str, bytes], *, depth: int = MAX_DEPTH) -> set[str]:
    """The names of the secrets that are in a content, encoded up to ``depth`` less one times."""
    found: set[str] = set()
    parts, seen = {content}, set[bytes]()
    for _ in range(depth):
        for part in parts:
            plain = _BLANK.sub(b"", part)
            found |= {name for name, secret in secrets.items() if secret in part or secret in plain}
        seen |= parts
        parts = {inner for part in parts for inner in _decode(part)} - seen
    return found


def _decode(content: bytes) -> set[bytes]:
    """What is encoded in a content, with lines that are broken and ones that are not."""
    found: set[bytes] = set()
    for text in (content, _BLANK.sub(b"", content)):
        for match in _ENCODED.findall(text):
            # A word before it may be of the same characters: begin at each of four places.
            word = match.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
            for begin in range(4):
                part = word[begin : len(word) - (len(word) - begin) % 4 or None]
                rest = word[begin + len(part) :]
                padded = part + (rest + b"=" * (-len(rest) % 4) if len(rest) > 1 else b"")
                try:
                    found.add(base64.b64decode(padded, validate=True))
                except binascii.Error:
                    continue
    return found
