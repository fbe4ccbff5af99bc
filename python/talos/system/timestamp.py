"""Signed timestamps of RFC 3161, verified by the OpenSSL that the image has anyway.

Function names are those of ``openssl/ts.h`` and ``openssl/x509_vfy.h``. Why it is no library of Python's:
docs/decisions/timestamps.md.
"""

import ctypes
import re
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache

LIBRARY = "libcrypto.so.3"
_GRANTED = 0
_PARTIAL_CHAIN = 0x80000
"""X509_V_FLAG_PARTIAL_CHAIN: the anchor may itself be issued by one that is not trusted."""
_TIME = re.compile(rb"(?P<date>[0-9]{8})(?P<time>[0-9]{6}(?:\.[0-9]{1,6})?Z)")
"""GeneralizedTime as section 2.4.2 has it, to microseconds."""
_HASHES = {672: "sha256", 673: "sha384", 674: "sha512"}
"""OpenSSL's numbers of hash functions, NID_sha256 and so on, to names of hashlib."""
_DETAIL = b"Verify error:"


class TimestampError(ValueError):
    """The data is no timestamp, or forged, or of a signer that is not trusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timestamp:
    """When a signer has seen what has this hash. ``signer`` is its certificate in DER."""

    time: datetime
    algorithm: str
    """Of hashlib."""
    digest: bytes
    signer: bytes


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(LIBRARY)
    pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_long
    returns: dict[str, tuple[type | None, tuple[type, ...]]] = {
        "d2i_TS_RESP": (pointer, (pointer, pointer, size)),
        "TS_RESP_free": (None, (pointer,)),
        "TS_RESP_get_status_info": (pointer, (pointer,)),
        "TS_STATUS_INFO_get0_status": (pointer, (pointer,)),
        "TS_RESP_get_token": (pointer, (pointer,)),
        "TS_RESP_get_tst_info": (pointer, (pointer,)),
        "TS_RESP_verify_signature": (number, (pointer, pointer, pointer, pointer)),
        "TS_TST_INFO_get_time": (pointer, (pointer,)),
        "TS_TST_INFO_get_msg_imprint": (pointer, (pointer,)),
        "TS_MSG_IMPRINT_get_algo": (pointer, (pointer,)),
        "TS_MSG_IMPRINT_get_msg": (pointer, (pointer,)),
        "X509_ALGOR_get0": (None, (pointer, pointer, pointer, pointer)),
        "OBJ_obj2nid": (number, (pointer,)),
        "ASN1_INTEGER_get": (size, (pointer,)),
        "ASN1_STRING_length": (number, (pointer,)),
        "ASN1_STRING_get0_data": (pointer, (pointer,)),
        "d2i_X509": (pointer, (pointer, pointer, size)),
        "i2d_X509": (number, (pointer, pointer)),
        "X509_free": (None, (pointer,)),
        "X509_STORE_new": (pointer, ()),
        "X509_STORE_free": (None, (pointer,)),
        "X509_STORE_add_cert": (number, (pointer, pointer)),
        "X509_STORE_get0_param": (pointer, (pointer,)),
        "X509_VERIFY_PARAM_set_flags": (number, (pointer, ctypes.c_ulong)),
        "X509_VERIFY_PARAM_set_time": (None, (pointer, ctypes.c_int64)),
        "OPENSSL_sk_new_null": (pointer, ()),
        "OPENSSL_sk_push": (number, (pointer, pointer)),
        "OPENSSL_sk_free": (None, (pointer,)),
        "ERR_clear_error": (None, ()),
        "ERR_peek_last_error_all": (ctypes.c_ulong, (pointer, pointer, pointer, pointer, pointer)),
        "ERR_reason_error_string": (ctypes.c_char_p, (ctypes.c_ulong,)),
    }
    for name, (result, arguments) in returns.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def verify_timestamp(response: bytes, anchor: bytes, others: Sequence[bytes]) -> Timestamp:
    """What a response of an authority attests, when all certificates were valid at the time that it names.

    ``anchor`` is the certificate that the signer's has to lead to, ``others`` are what may be needed beside
    those in the response, all in DER. The signer's is for timestamps only, by a critical extension, and the
    response refers to it by its hash. TimestampError.
    """
    library = _library()
    with ExitStack() as stack:
        # What is left in its queue would be the next error of pyOpenSSL.
        stack.callback(library.ERR_clear_error)
        parsed = _parse("TS_RESP", response, stack)
        status = library.TS_STATUS_INFO_get0_status(library.TS_RESP_get_status_info(parsed))
        if library.ASN1_INTEGER_get(status) != _GRANTED:
            raise TimestampError("it was not granted")
        info = library.TS_RESP_get_tst_info(parsed)
        time = _find_time(info)
        algorithm, digest = _find_imprint(info)
        store = library.X509_STORE_new()
        stack.callback(library.X509_STORE_free, store)
        library.X509_STORE_add_cert(store, _parse("X509", anchor, stack))
        parameters = library.X509_STORE_get0_param(store)
        library.X509_VERIFY_PARAM_set_flags(parameters, _PARTIAL_CHAIN)
        library.X509_VERIFY_PARAM_set_time(parameters, int(time.timestamp()))
        certificates = library.OPENSSL_sk_new_null()
        stack.callback(library.OPENSSL_sk_free, certificates)
        for one in others:
            library.OPENSSL_sk_push(certificates, _parse("X509", one, stack))
        signer = ctypes.c_void_p()
        token = library.TS_RESP_get_token(parsed)
        if library.TS_RESP_verify_signature(token, certificates, store, ctypes.byref(signer)) != 1:
            raise TimestampError(_find_error())
        stack.callback(library.X509_free, signer)
        return Timestamp(time=time, algorithm=algorithm, digest=digest, signer=_encode(signer))


def _parse(kind: str, data: bytes, stack: ExitStack) -> int:
    """What the whole of the data is in DER, for as long as the stack is open; TimestampError."""
    library = _library()
    buffer = ctypes.create_string_buffer(data, len(data))
    start = ctypes.addressof(buffer)
    place = ctypes.c_void_p(start)
    found: int | None = getattr(library, f"d2i_{kind}")(None, ctypes.byref(place), len(data))
    if found:
        stack.callback(getattr(library, f"{kind}_free"), found)
        if place.value == start + len(data):
            return found
    raise TimestampError("it is damaged")


def _find_time(info: int) -> datetime:
    found = _TIME.fullmatch(_read(_library().TS_TST_INFO_get_time(info)))
    if found:
        with suppress(ValueError):
            return datetime.fromisoformat(f"{found['date'].decode()}T{found['time'].decode()}")
    raise TimestampError("it has no time")


def _find_imprint(info: int) -> tuple[str, bytes]:
    """The hash function, and the hash, of what was seen; TimestampError."""
    library = _library()
    imprint = library.TS_TST_INFO_get_msg_imprint(info)
    kind = ctypes.c_void_p()
    library.X509_ALGOR_get0(ctypes.byref(kind), None, None, library.TS_MSG_IMPRINT_get_algo(imprint))
    algorithm = _HASHES.get(library.OBJ_obj2nid(kind))
    if algorithm is None:
        raise TimestampError(f"its hash is of none of {', '.join(_HASHES.values())}")
    return algorithm, _read(library.TS_MSG_IMPRINT_get_msg(imprint))


def _find_error() -> str:
    """What is wrong with the signer's certificate, or OpenSSL's reason for something else."""
    library = _library()
    data = ctypes.c_char_p()
    code = library.ERR_peek_last_error_all(None, None, None, ctypes.byref(data), None)
    detail, reason = data.value or b"", library.ERR_reason_error_string(code) or b"it can't be verified"
    text = detail.removeprefix(_DETAIL) if detail.startswith(_DETAIL) else reason
    return text.decode(errors="replace")


def _read(string: int) -> bytes:
    library = _library()
    return ctypes.string_at(library.ASN1_STRING_get0_data(string), library.ASN1_STRING_length(string))


def _encode(certificate: ctypes.c_void_p) -> bytes:
    library = _library()
    buffer = ctypes.create_string_buffer(library.i2d_X509(certificate, None))
    library.i2d_X509(certificate, ctypes.byref(ctypes.c_void_p(ctypes.addressof(buffer))))
    return buffer.raw
