"""Private names of asyncio and trio that the transport is built on: another Python may not have them."""

import asyncio.sslproto
import inspect
from asyncio import selector_events  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]

import attrs
import pytest
import trio
import trio._core._run as trio_run  # pyright: ignore[reportPrivateUsage]
from trio._core._io_epoll import EpollIOManager  # pyright: ignore[reportPrivateImportUsage]

from talos.rpc.guest import start_guest_run
from talos.rpc.port import alert


@pytest.mark.parametrize("name", ["_on_handshake_complete", "_do_handshake", "connection_lost"])
def test_asyncio_calls_what_is_overridden(name: str) -> None:
    assert name in vars(alert.AlertingProtocol)
    assert callable(getattr(asyncio.sslproto.SSLProtocol, name))
    callers = inspect.getsource(asyncio.sslproto) + inspect.getsource(selector_events)
    assert f".{name}(" in callers or f".{name}, " in callers


@pytest.mark.parametrize(
    "name", ["_process_outgoing", "_wakeup_waiter", "_transport", "_incoming", "_loop", "max_size"]
)
def test_asyncio_has_what_the_alert_uses(name: str) -> None:
    assert name in inspect.getsource(asyncio.sslproto.SSLProtocol)


def test_asyncio_reads_into_what_the_shared_buffer_replaces() -> None:
    source = inspect.getsource(asyncio.sslproto.SSLProtocol.buffer_updated)
    assert "_ssl_buffer_view[:nbytes]" in source
    # What is read is passed on before anything else runs.
    _, _, reading = inspect.getsource(selector_events).partition("def _read_ready__get_buffer(self):")
    steps = [reading.index(step) for step in (".get_buffer(", ".recv_into(buf)", ".buffer_updated(", "def ")]
    assert steps == sorted(steps)


def test_an_error_of_the_handshake_is_reported_by_that_method() -> None:
    method = asyncio.sslproto.SSLProtocol._on_handshake_complete
    parameters = inspect.signature(method).parameters
    assert list(parameters) == ["self", "handshake_exc"]


def test_trio_has_what_the_guest_replaces() -> None:
    assert callable(start_guest_run)
    state = trio_run.GuestState
    assert callable(state.guest_tick)
    fields = {field.name for field in attrs.fields(state)}
    assert fields >= {"runner", "done_callback", "unrolled_run_gen", "unrolled_run_next_send"}
    source = inspect.getsource(trio_run)
    # It makes the state by the name that is replaced for this moment, and polls by this method.
    assert "guest_state = GuestState(" in source
    assert "guest_tick_scheduled" in source
    assert "main_task_outcome" in source
    manager = inspect.getsource(EpollIOManager)
    assert "_epoll" in manager
    assert "def get_events" in manager
    assert "host_uses_signal_set_wakeup_fd" in inspect.signature(trio.lowlevel.start_guest_run).parameters
