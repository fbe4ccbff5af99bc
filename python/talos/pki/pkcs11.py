"""Keys of PKCS #11 tokens, named by URIs (RFC 7512).

pkcs11:token=owner;object=release?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=/run/pin
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from talos.system import cryptoki
from talos.system.errors import UserError
from talos.system.files import read_file

SCHEME = "pkcs11:"
MODULE, PIN = "PKCS11_MODULE", "PKCS11_PIN"
"""Variables: the path of the maker's library and the PIN, where the URI has none."""
_MAX_PIN = 256
"""Bytes of a file with a PIN."""
_TOKEN = ("token", "manufacturer", "model", "serial")
_PATH = (*_TOKEN, "slot-id", "object", "id", "type")
_QUERY = ("module-path", "pin-source", "pin-value")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenKey:
    """A private key: the maker's library, which token and key, and how its PIN is known.

    ``where`` is the URI without its query, which may have the PIN.
    """

    where: str
    module: str
    choice: cryptoki.Choice
    query: Mapping[str, bytes] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)

    def sign(self, data: bytes, public: object) -> bytes:
        """A signature, by the mechanism of the public key's kind. UserError."""
        kind = cryptoki.SHA256_RSA_PKCS if isinstance(public, RSAPublicKey) else cryptoki.EDDSA
        try:
            return cryptoki.sign(self.module, self.choice, self._read_pin, kind, data)
        except cryptoki.TokenError as error:
            raise UserError(str(error), where=self.where) from None

    def _read_pin(self) -> str:
        source = _text(self.query, "pin-source", self.where).removeprefix("file:")
        if source.startswith("|"):
            raise UserError("pin-source is a program", where=self.where, hint=f"name a file, or set {PIN}")
        if source:
            pin = read_file(source, _MAX_PIN).decode(errors="replace").rstrip("\r\n")
        else:
            pin = _text(self.query, "pin-value", self.where) or self.environment.get(PIN, "")
        if not pin:
            raise UserError("there is no PIN", where=self.where, hint=f"set {PIN}, or add ?pin-source=FILE")
        return pin


def parse_uri(uri: str, environment: Mapping[str, str]) -> TokenKey:
    """The key that a URI names. UserError."""
    path, _, query = uri.removeprefix(SCHEME).partition("?")
    where = f"{SCHEME}{path}"
    attributes, options = _parse(path, ";", _PATH, where), _parse(query, "&", _QUERY, where)
    if attributes.get("type", b"private") != b"private":
        raise UserError("type is not private", where=where)
    if not ("id" in attributes or "object" in attributes):
        raise UserError("names no key", where=where, hint="add object=LABEL or id=%01")
    texts = {
        name: _text(attributes, name, where) for name in (*_TOKEN, "object", "slot-id") if name in attributes
    }
    slot = texts.pop("slot-id", "")
    if slot and not (slot.isascii() and slot.isdecimal()):
        raise UserError(f"slot-id {slot!r} is no number", where=where)
    module = _text(options, "module-path", where) or environment.get(MODULE, "")
    if not module:
        raise UserError(
            "which library has the token?",
            where=where,
            hint=f"set {MODULE}, or add ?module-path=/usr/lib/x86_64-linux-gnu/opensc-pkcs11.so",
        )
    return TokenKey(
        where=where,
        module=module,
        choice=cryptoki.Choice(
            label=texts.pop("object", None),
            id=attributes.get("id"),
            slot=int(slot) if slot else None,
            **texts,
        ),
        query=options,
        environment=environment,
    )


def _parse(text: str, separator: str, known: Sequence[str], where: str) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    for part in filter(None, text.split(separator)):
        name, equals, value = part.partition("=")
        if not equals or name not in known or name in found:
            raise UserError(f"{name} is unknown here, or given twice", where=where, hint=", ".join(known))
        found[name] = unquote_to_bytes(value)
    return found


def _text(values: Mapping[str, bytes], name: str, where: str) -> str:
    try:
        return values.get(name, b"").decode()
    except UnicodeDecodeError:
        raise UserError(f"{name} is no UTF-8", where=where) from None
