"""The steps of an upgrade that is no sequence of the machine, as events of one."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from google.protobuf.message import Message

from talos.api.common.common_pb2 import Code as CommonCode
from talos.api.common.common_pb2 import Error as CommonError
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import RpcError


@dataclass(frozen=True, slots=True)
class Steps:
    """Publishes phases with one task each."""

    publish: Callable[[Message], object]

    @asynccontextmanager
    async def sequence(self, name: str) -> AsyncGenerator[None]:
        """From the first event to the last, which has the reason of a failure."""
        self.publish(pb.SequenceEvent(sequence=name, action=pb.SequenceEvent.START))
        try:
            yield
        except Exception as error:
            text = error.message if isinstance(error, RpcError) else str(error)
            failed = CommonError(code=CommonCode.FATAL, message=text)
            self.publish(pb.SequenceEvent(sequence=name, action=pb.SequenceEvent.NOOP, error=failed))
            raise
        self.publish(pb.SequenceEvent(sequence=name, action=pb.SequenceEvent.STOP))

    @asynccontextmanager
    async def phase(self, name: str, task: str) -> AsyncGenerator[None]:
        """One phase; a failure leaves it without its end, as in the machine's own sequences."""
        self.publish(pb.PhaseEvent(phase=name, action=pb.PhaseEvent.START))
        self.publish(pb.TaskEvent(task=task, action=pb.TaskEvent.START))
        yield
        self.publish(pb.TaskEvent(task=task, action=pb.TaskEvent.STOP))
        self.publish(pb.PhaseEvent(phase=name, action=pb.PhaseEvent.STOP))
