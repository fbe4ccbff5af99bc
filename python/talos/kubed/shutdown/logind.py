"""What the kubelet calls of logind, and of the bus.

https://www.freedesktop.org/software/systemd/man/org.freedesktop.login1.html
"""

from collections.abc import Sequence
from dataclasses import dataclass

from talos.kubed.shutdown.inhibitors import Inhibitors, ShutdownBegunError, TooManyLocksError

BUS, LOGIN = "org.freedesktop.DBus", "org.freedesktop.login1"
LOGIN_PATH, MANAGER = "/org/freedesktop/login1", "org.freedesktop.login1.Manager"
PREPARE_FOR_SHUTDOWN = "PrepareForShutdown"
MAX_DELAY = 20 * 60
"""Seconds that pods may have to end at a shutdown, as upstream. A kubelet with a config that gives them more
gives them none."""
_ERRORS = f"{BUS}.Error"


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCall:
    """A call as it came over the bus; ``destination`` and ``interface`` may be empty."""

    destination: str
    interface: str
    member: str
    signature: str
    body: Sequence[object]


@dataclass(frozen=True, slots=True, kw_only=True)
class BusReply:
    """What a call returns. ``descriptor`` is passed along and closed. ``follows``: it gets signals."""

    signature: str = ""
    body: tuple[object, ...] = ()
    descriptor: int | None = None
    follows: bool = False


class BusError(Exception):
    """What a call fails with: one of D-Bus's own errors, or logind's."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name if "." in name else f"{_ERRORS}.{name}"


def answer(call: MethodCall, inhibitors: Inhibitors, unique: str) -> BusReply:
    """The answer to a call of the connection with this unique name. BusError."""
    match call.destination, call.interface, call.member:
        case (_, "org.freedesktop.DBus.Peer", "Ping"):
            return BusReply()
        case ("org.freedesktop.DBus", _, "Hello"):
            return BusReply(signature="s", body=(unique,))
        case ("org.freedesktop.DBus", _, "AddMatch" | "RemoveMatch"):
            _check_signature(call, "s")
            # There is one signal: a client that subscribed to any gets it.
            return BusReply(follows=call.member == "AddMatch")
        case ("org.freedesktop.login1", "org.freedesktop.DBus.Properties", "Get"):
            _check_signature(call, "ss")
            return _read_property(call)
        case ("org.freedesktop.login1", _, "Inhibit"):
            _check_signature(call, "ssss")
            return _inhibit(call, inhibitors)
        case ("org.freedesktop.DBus" | "org.freedesktop.login1", _, _):
            raise BusError("UnknownMethod", f"there is no method {call.interface}.{call.member}")
        case _:
            raise BusError("ServiceUnknown", f"there is no {call.destination}")


def _check_signature(call: MethodCall, wanted: str) -> None:
    if call.signature != wanted:
        raise BusError("InvalidArgs", f"{call.member} takes {wanted}, not {call.signature or 'nothing'}")


def _read_property(call: MethodCall) -> BusReply:
    if tuple(call.body) != (MANAGER, "InhibitDelayMaxUSec"):
        raise BusError("UnknownProperty", f"there is no property {call.body[0]}.{call.body[1]}")
    return BusReply(signature="v", body=(("t", MAX_DELAY * 1_000_000),))


def _inhibit(call: MethodCall, inhibitors: Inhibitors) -> BusReply:
    what, who, why, mode = (str(part) for part in call.body)
    if "shutdown" not in what.split(":") or mode != "delay":
        raise BusError("NotSupported", f"only a shutdown can be inhibited, by a delay: not {what} by {mode}")
    try:
        return BusReply(signature="h", body=(), descriptor=inhibitors.take(who, why))
    except ShutdownBegunError:
        raise BusError(f"{LOGIN}.OperationInProgress", "the node is shutting down already") from None
    except TooManyLocksError:
        raise BusError("LimitsExceeded", "there are too many locks") from None
