"""Machine configs on the kernel's command line: base64 of zstd of YAML, maybe in several pieces."""

import base64
import binascii

from talos.config.read.tree import MAX_BYTES
from talos.system.errors import UserError
from talos.system.proc.cmdline import Cmdline
from talos.system.zstd import ZstdError, unpack_zstd

EARLY, INLINE = "talos.config.early", "talos.config.inline"


def decode_inline(arguments: Cmdline, name: str) -> bytes:
    """The config of an argument, empty when it is not given. Repeated values are one.

    UserError: when it can't be decoded.
    """
    text = "".join(arguments.all(name))
    if not text:
        return b""
    hint = f"{name}=$(zstd --stdout config.yaml | base64 --wrap=0)"
    try:
        return unpack_zstd(base64.b64decode(text, validate=True), limit=MAX_BYTES)
    except binascii.Error as error:
        raise UserError(f"this is not base64: {error}", where=name, hint=hint) from None
    except ZstdError as error:
        raise UserError(f"this is not zstd: {error}", where=name, hint=hint) from None
