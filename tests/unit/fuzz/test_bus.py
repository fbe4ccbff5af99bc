"""What a client of the bus sends: a message is answered, or its connection ends, and soon."""

# jeepney has no types.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from jeepney import DBusAddress, MatchRule, Message, Properties, message_bus, new_method_call

from talos.kubed.shutdown.inhibitors import Inhibitors, TooManyLocksError
from talos.kubed.shutdown.logind import LOGIN, LOGIN_PATH, MANAGER, BusError, answer
from talos.kubed.shutdown.messages import MessageError, MessageReader, encode, make_error, make_reply

from .trial import Parser, check_parser

LOGIND = DBusAddress(LOGIN_PATH, LOGIN, MANAGER)
INHIBIT = ("shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay")


class NoLocks(Inhibitors):
    """None to take, as a lock needs a task."""

    def __init__(self) -> None: ...

    def take(self, who: str, why: str) -> int:
        raise TooManyLocksError


def answer_all(data: bytes) -> None:
    """What a connection does with what it receives."""
    reader = MessageReader()
    position = 0
    while True:
        while missing := reader.find_missing():
            part = data[position : position + missing]
            if not part:
                return
            position += len(part)
            reader.add(part)
        incoming = reader.take()
        if incoming.call is None:
            continue
        try:
            reply = make_reply(incoming, answer(incoming.call, NoLocks(), ":1.1"))
        except BusError as error:
            reply = make_error(incoming, error)
        encoded, _ = encode(reply, 1, client=":1.1", by_bus=True)
        assert encoded


def seed(message: Message) -> bytes:
    return message.serialise(1)


def test_message() -> None:
    seeds = [
        seed(message_bus.Hello()),
        seed(message_bus.AddMatch(MatchRule(type="signal", interface=MANAGER, path=LOGIN_PATH))),
        seed(Properties(LOGIND).get("InhibitDelayMaxUSec")),
        seed(new_method_call(LOGIND, "Inhibit", "ssss", INHIBIT)),
        seed(new_method_call(LOGIND, "Inhibit", "a{sv}av", ({"a": ("as", ["b"])}, [("u", 7)]))),
    ]
    check_parser(Parser(parse=answer_all, seeds=seeds, refusals=(MessageError,)))
