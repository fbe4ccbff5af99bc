"""QEMU's guest agent, called as a hypervisor calls it: through the port that it has in the machine."""

import json
import secrets
import socket
from pathlib import Path
from typing import cast

from driver.failure import ConditionNotMetError

PORT = "org.qemu.guest_agent.0"
ANSWER_TIMEOUT = 10.0
"""Seconds for one answer; nothing shows whether a program listens in the machine."""
_DELIMITER = b"\xff"


def execute(path: Path, command: str) -> object:
    """What the agent returns; ConditionNotMetError when it does not answer.

    What an earlier attempt has left on the line is skipped, as the protocol provides for: the delimiter ends
    it in the machine, which gives an error, and comes before the answer to the synchronization.
    """
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(ANSWER_TIMEOUT)
        try:
            line.connect(str(path))
            mark = secrets.randbelow(1 << 31)
            line.sendall(_DELIMITER + _encode("guest-sync-delimited", id=mark))
            with line.makefile("rb") as replies:
                while _read(replies.readline()).get("return") != mark:
                    pass
                line.sendall(_encode(command))
                return _read(replies.readline())["return"]
        except (OSError, ValueError, KeyError) as error:
            raise ConditionNotMetError(f"the guest agent does not answer to {command}: {error}") from error


def _encode(command: str, **arguments: object) -> bytes:
    return json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n"


def _read(reply: bytes) -> dict[str, object]:
    if not reply:
        raise ValueError("the line was closed")
    return cast("dict[str, object]", json.loads(reply.rpartition(_DELIMITER)[2]))
