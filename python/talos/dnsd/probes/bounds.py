"""What requests for probes may have: values that are out of bounds are refused, with the bounds."""

from dataclasses import dataclass

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from talos.api.durations import format_duration
from talos.api.rpc import Code, RpcError

_NANOSECONDS = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerField:
    """A whole number of a request by the name of its field, and what it is when it is absent."""

    name: str
    minimum: int
    maximum: int
    default: int

    def read(self, request: Message) -> int:
        """The value; RpcError."""
        value: int = getattr(request, self.name) if request.HasField(self.name) else self.default
        if not self.minimum <= value <= self.maximum:
            raise RpcError(
                Code.INVALID_ARGUMENT,
                f"{self.name} {value} is out of bounds: give {self.minimum} to {self.maximum}",
            )
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationField:
    """A time of a request in seconds by the name of its field, and what it is when it is absent."""

    name: str
    minimum: float
    maximum: float
    default: float

    def read(self, request: Message) -> float:
        """The seconds; RpcError."""
        if not request.HasField(self.name):
            return self.default
        value: Duration = getattr(request, self.name)
        seconds = value.ToNanoseconds() / _NANOSECONDS
        if not self.minimum <= seconds <= self.maximum:
            bounds = f"{format_duration(self.minimum)} to {format_duration(self.maximum)}"
            raise RpcError(
                Code.INVALID_ARGUMENT,
                f"{self.name} {format_duration(seconds)} is out of bounds: give {bounds}",
            )
        return seconds
