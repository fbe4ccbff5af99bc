"""Commands of TPM 2.0, with sessions that keep secrets from who reads the bus.

A session is salted with the storage root key: only the TPM that has that key can take part in it. Commands
and responses carry an HMAC, their first parameter is encrypted. As in the TCG's "Trusted Platform Module
Library", revision 1.59: part 1 has the derivations (11.4.10) and the sessions (19), part 3 the commands.
"""

import hmac
import os
import struct
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from talos.system.errors import UserError
from talos.system.tpm import wire
from talos.system.tpm.wire import WHERE, Reader, sized

DEVICE = "/dev/tpmrm0"
"""By the kernel's resource manager: others may use the TPM meanwhile."""
MAX_RESPONSE = 4096
MAX_READ = 8
"""PCRs in one response."""
_CURVE = ec.SECP256R1()
_POLICY_FAILED = 0x9D
_REASONS = {
    _POLICY_FAILED: "the policy does not hold",
    0x85: "its owner's hierarchy is switched off",
    0x9F: "what is sealed is not its own",
    0xA2: "its owner's hierarchy has a password",
    0x120: "it is disabled",
    0x921: "it is locked out",
}
"""Of TPM_RC, where one is more than a bug."""

type Transmit = Callable[[bytes], bytes]
"""Hands a command to the TPM; its response. OSError."""


class PolicyFailedError(UserError):
    """PCRs are others than those that something was sealed to."""


@contextmanager
def open_device(path: str = DEVICE) -> Generator[Transmit]:
    """The kernel's device. UserError when there is none."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UserError(
            "there is none that the kernel has a driver for, of version 2.0", where=WHERE
        ) from None

    def transmit(command: bytes) -> bytes:
        os.write(descriptor, command)
        return os.read(descriptor, MAX_RESPONSE)

    try:
        yield transmit
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedKey:
    """An object in the TPM."""

    handle: int
    name: bytes
    public: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedPcr:
    """The policy of a PCR's value, and a key's signature of it. ``public`` is the key's TPMT_PUBLIC."""

    pcr: int
    policy: bytes
    public: bytes
    signature: bytes


@dataclass(slots=True, kw_only=True)
class _Session:
    """A session that is salted; ``received`` is the TPM's last nonce."""

    handle: int
    key: bytes
    received: bytes
    sent: bytes = b""

    def authorize(
        self, code: int, names: Sequence[bytes], parameters: bytes, attributes: int
    ) -> tuple[bytes, bytes]:
        """The authorization of a command, and its parameters, the first one encrypted where it has to be."""
        self.sent = os.urandom(wire.HASH_SIZE)
        if attributes & wire.DECRYPT:
            reader = Reader(parameters)
            secret = self._make_cipher(self.sent, self.received).encryptor().update(reader.sized())
            parameters = sized(secret) + reader.rest()
        hashed = sha256(struct.pack(">I", code) + b"".join(names) + parameters).digest()
        signed = self._sign(hashed, self.sent, self.received, attributes)
        return struct.pack(">I", self.handle) + sized(self.sent) + bytes([attributes]) + sized(
            signed
        ), parameters

    def verify(self, code: int, parameters: bytes, authorization: Reader) -> bytes:
        """The parameters of a response, decrypted. UserError when it is not the TPM's."""
        self.received = authorization.sized()
        attributes, signature = authorization.number("B"), authorization.sized()
        hashed = sha256(struct.pack(">II", 0, code) + parameters).digest()
        if not hmac.compare_digest(self._sign(hashed, self.received, self.sent, attributes), signature):
            raise UserError("a response was changed on its way", where=WHERE)
        if attributes & wire.ENCRYPT:
            reader = Reader(parameters)
            secret = self._make_cipher(self.received, self.sent).decryptor().update(reader.sized())
            parameters = sized(secret) + reader.rest()
        return parameters

    def _sign(self, hashed: bytes, newer: bytes, older: bytes, attributes: int) -> bytes:
        return hmac.digest(self.key, hashed + newer + older + bytes([attributes]), "sha256")

    def _make_cipher(self, newer: bytes, older: bytes) -> Cipher[modes.CFB]:
        made = _derive(self.key, b"CFB", newer, older, 256)
        return Cipher(algorithms.AES(made[:16]), modes.CFB(made[16:]))


class Tpm:
    """Commands of one TPM. UserError for what it refuses, OSError when it can't be reached."""

    def __init__(self, transmit: Transmit) -> None:
        self._transmit = transmit

    def read_pcrs(self, pcrs: Sequence[int]) -> Mapping[int, bytes]:
        """The values of PCRs, of the SHA-256 bank."""
        found: dict[int, bytes] = {}
        while missing := sorted(set(pcrs) - found.keys()):
            _, reader = self._run(wire.PCR_READ, [], wire.select_pcrs(missing[:MAX_READ]))
            reader.number("I")  # how often PCRs have changed
            shown = wire.parse_selection(reader)
            values = [reader.sized() for _ in range(reader.number("I"))]
            if not shown or len(shown) != len(values) or not set(shown) <= set(missing):
                raise UserError(f"it has no PCR {missing[0]} in a SHA-256 bank", where=WHERE)
            found.update(zip(shown, values, strict=True))
        return found

    @contextmanager
    def make_storage_key(self) -> Generator[LoadedKey]:
        """The storage root key, which a TPM makes alike until it is cleared."""
        sensitive = sized(sized(b"") + sized(b""))
        parameters = sensitive + sized(wire.make_storage_template()) + sized(b"") + struct.pack(">I", 0)
        handle, reader = self._run(wire.CREATE_PRIMARY, [wire.OWNER], parameters, returns_handle=True)
        with self._flushing(handle):
            public = reader.sized()
            yield LoadedKey(handle=handle, name=wire.name_of(public), public=public)

    def create(self, parent: LoadedKey, secret: bytes, policy: bytes) -> tuple[bytes, bytes]:
        """Seal data to a policy: a TPM2B_PRIVATE and a TPM2B_PUBLIC."""
        sensitive = sized(sized(b"") + sized(secret))
        template = sized(wire.make_sealed_template(policy))
        with self._start_session(parent, wire.HMAC_SESSION) as session:
            parameters = sensitive + template + sized(b"") + struct.pack(">I", 0)
            _, reader = self._run(
                wire.CREATE,
                [parent.handle],
                parameters,
                session=session,
                names=[parent.name],
                attributes=wire.CONTINUE | wire.DECRYPT,
            )
        return sized(reader.sized()), sized(reader.sized())

    def unseal(
        self,
        parent: LoadedKey,
        private: bytes,
        public: bytes,
        pcrs: Sequence[int],
        signed: SignedPcr | None = None,
    ) -> bytes:
        """Data that were sealed to PCRs, perhaps to a signed one before them. PolicyFailedError."""
        with self._start_session(parent, wire.POLICY_SESSION) as session:
            if signed is not None:
                self._authorize(session, signed)
            if pcrs:
                self._require_pcrs(session, pcrs)
            handle, _ = self._run(wire.LOAD, [parent.handle], private + public, returns_handle=True)
            with self._flushing(handle):
                _, reader = self._run(
                    wire.UNSEAL,
                    [handle],
                    b"",
                    session=session,
                    names=[wire.name_of(wire.unsized(public))],
                    attributes=wire.CONTINUE | wire.ENCRYPT,
                )
        return reader.sized()

    def extend(self, pcr: int, digest: bytes) -> None:
        """Measure something into a PCR of the SHA-256 bank."""
        self._run(wire.PCR_EXTEND, [pcr], struct.pack(">IH", 1, wire.SHA256) + digest)

    def _require_pcrs(self, session: _Session, pcrs: Sequence[int]) -> None:
        self._run(wire.POLICY_PCR, [session.handle], sized(b"") + wire.select_pcrs(pcrs), is_open=True)

    def _authorize(self, session: _Session, signed: SignedPcr) -> None:
        """Have the policy of a PCR's value replaced by that of the key which has signed it."""
        self._require_pcrs(session, [signed.pcr])
        parameters = sized(b"") + sized(signed.public) + struct.pack(">I", wire.OWNER)
        handle, _ = self._run(wire.LOAD_EXTERNAL, [], parameters, returns_handle=True)
        with self._flushing(handle):
            signature = struct.pack(">HH", wire.RSASSA, wire.SHA256) + sized(signed.signature)
            parameters = sized(sha256(signed.policy).digest()) + signature
            _, reader = self._run(wire.VERIFY_SIGNATURE, [handle], parameters, is_open=True)
        parameters = sized(signed.policy) + sized(b"") + sized(wire.name_of(signed.public)) + reader.rest()
        self._run(wire.POLICY_AUTHORIZE, [session.handle], parameters, is_open=True)

    @contextmanager
    def _start_session(self, key: LoadedKey, kind: int) -> Generator[_Session]:
        x, y = wire.parse_ecc_point(key.public)
        try:
            theirs = ec.EllipticCurvePublicNumbers(int.from_bytes(x), int.from_bytes(y), _CURVE).public_key()
        except ValueError as error:
            raise UserError(f"its storage root key can't be used: {error}", where=WHERE) from None
        own = ec.generate_private_key(_CURVE)
        point = own.public_key().public_numbers()
        own_x, own_y = point.x.to_bytes(32), point.y.to_bytes(32)
        label = b"SECRET\0" + own_x + x
        salt = sha256(struct.pack(">I", 1) + own.exchange(ec.ECDH(), theirs) + label).digest()
        nonce = os.urandom(wire.HASH_SIZE)
        parameters = (
            sized(nonce)
            + sized(sized(own_x) + sized(own_y))
            + struct.pack(">BHHHH", kind, wire.AES, 128, wire.CFB, wire.SHA256)
        )
        handle, reader = self._run(
            wire.START_AUTH_SESSION,
            [key.handle, wire.NO_HANDLE],
            parameters,
            returns_handle=True,
            is_open=True,
        )
        with self._flushing(handle):
            received = reader.sized()
            yield _Session(handle=handle, key=_derive(salt, b"ATH", received, nonce, 256), received=received)

    @contextmanager
    def _flushing(self, handle: int) -> Generator[None]:
        try:
            yield
        finally:
            self._run(wire.FLUSH_CONTEXT, [], struct.pack(">I", handle))

    def _run(
        self,
        code: int,
        handles: Sequence[int],
        parameters: bytes,
        *,
        session: _Session | None = None,
        names: Sequence[bytes] = (),
        attributes: int = 0,
        returns_handle: bool = False,
        is_open: bool = False,
    ) -> tuple[int, Reader]:
        """One command; the handle and the parameters of its response.

        One with handles is authorized by a session, with the ``names`` of the handles, else by the empty
        password; one that ``is_open`` by neither.
        """
        place = b"".join(struct.pack(">I", handle) for handle in handles)
        body, tag = parameters, wire.NO_SESSIONS
        if handles and not is_open:
            tag = wire.SESSIONS
            authorization = (
                struct.pack(">I", wire.PASSWORD_SESSION) + sized(b"") + bytes([wire.CONTINUE]) + sized(b"")
            )
            if session is not None:
                authorization, parameters = session.authorize(code, names, parameters, attributes)
            body = struct.pack(">I", len(authorization)) + authorization + parameters
        size = struct.calcsize(">HII") + len(place) + len(body)
        response = self._transmit(struct.pack(">HII", tag, size, code) + place + body)
        return self._parse(code, Reader(response), session, returns_handle=returns_handle)

    def _parse(
        self, code: int, reader: Reader, session: _Session | None, *, returns_handle: bool
    ) -> tuple[int, Reader]:
        tag, _, result = reader.number("H"), reader.number("I"), reader.number("I")
        if result:
            # Codes about a parameter, a handle or a session have its number in other bits.
            base = result & 0xBF if result & 0x80 else result
            reason = _REASONS.get(base, "it refuses")
            kind = PolicyFailedError if base == _POLICY_FAILED else UserError
            raise kind(f"{reason} (command 0x{code:x}, response code 0x{result:x})", where=WHERE)
        handle = reader.number("I") if returns_handle else 0
        if tag != wire.SESSIONS:
            return handle, reader
        parameters = reader.take(reader.number("I"))
        if session is not None:
            parameters = session.verify(code, parameters, reader)
        return handle, Reader(parameters)


def _derive(key: bytes, label: bytes, first: bytes, second: bytes, bits: int) -> bytes:
    """KDFa, for as many bits as one block has."""
    return hmac.digest(
        key, struct.pack(">I", 1) + label + b"\0" + first + second + struct.pack(">I", bits), "sha256"
    )
