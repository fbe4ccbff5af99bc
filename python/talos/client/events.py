"""Events of a node, unpacked."""

from contextlib import suppress

from google.protobuf.message import DecodeError, Message

from talos.api.machine.machine_pb2 import (
    AddressEvent,
    ConfigLoadErrorEvent,
    ConfigValidationErrorEvent,
    Event,
    MachineStatusEvent,
    PhaseEvent,
    RestartEvent,
    SequenceEvent,
    ServiceStateEvent,
    TaskEvent,
)

_KINDS: dict[str, type[Message]] = {
    kind.DESCRIPTOR.full_name: kind
    for kind in (
        AddressEvent,
        ConfigLoadErrorEvent,
        ConfigValidationErrorEvent,
        MachineStatusEvent,
        PhaseEvent,
        RestartEvent,
        SequenceEvent,
        ServiceStateEvent,
        TaskEvent,
    )
}


def unpack_event(event: Event) -> Message | None:
    """The message inside an event, None when this client does not have its type, or it is no such message."""
    kind = _KINDS.get(event.data.type_url.rpartition("/")[2])
    with suppress(DecodeError):
        return kind.FromString(event.data.value) if kind else None
    return None


def describe_event(event: Event) -> tuple[str, str, str]:
    """An event's type, its source and its message."""
    source, message = _describe(unpack_event(event))
    return event.data.type_url, source, message


def _describe(message: Message | None) -> tuple[str, str]:
    match message:
        case SequenceEvent():
            if message.HasField("error"):
                return message.sequence, f"error: {message.error.message}"
            return message.sequence, SequenceEvent.Action.Name(message.action)
        case PhaseEvent():
            return message.phase, PhaseEvent.Action.Name(message.action)
        case TaskEvent():
            return message.task, TaskEvent.Action.Name(message.action)
        case ServiceStateEvent():
            return message.service, f"{ServiceStateEvent.Action.Name(message.action)}: {message.message}"
        case ConfigLoadErrorEvent() | ConfigValidationErrorEvent():
            return "", message.error
        case AddressEvent():
            return message.hostname, f"ADDRESSES: {', '.join(message.addresses)}"
        case MachineStatusEvent():
            unmet = ", ".join(f"{row.name}: {row.reason}" for row in message.status.unmet_conditions)
            ready = str(message.status.ready).lower()
            stage = MachineStatusEvent.MachineStage.Name(message.stage)
            return stage, f"ready: {ready}, unmet conditions: [{unmet}]"
        case RestartEvent():
            return "", f"reboot command {message.cmd}"
        case _:
            return "", ""
